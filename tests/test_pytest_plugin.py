"""``--trace-kernel``, each time in a pytest process of its own."""

from __future__ import annotations

import sys

import pytest

PASSES = "def test_passes(): pass"


@pytest.fixture
def run(pytester: pytest.Pytester):
    """Runs pytest in a subprocess on the files that the test made."""
    return pytester.runpytest_subprocess


def test_without_the_flag_nothing_is_imported(pytester, run):
    pytester.makepyfile(
        """
        import sys

        def test_modules(pytestconfig):
            assert pytestconfig.pluginmanager.has_plugin("tileops")
            heavy = {"torch", "tilelang", "tileops.trace", "plotly", "numpy"}
            assert not heavy & set(sys.modules)
        """
    )
    # Hypothesis's plugin imports NumPy where a test uses it, and other people's plugins what they like.
    run("-p", "no:hypothesispytest").assert_outcomes(passed=1)


def test_the_switch_is_on_before_a_conftest_is_configured(pytester, run):
    pytester.makeconftest(
        """
        from tileops.trace import trace

        def pytest_configure(config):
            print("configured with", trace.enabled)
        """
    )
    pytester.makepyfile(PASSES)
    run("--trace-kernel", "-s").stdout.fnmatch_lines(["configured with True"])
    run("-s").stdout.fnmatch_lines(["configured with False"])


@pytest.mark.parametrize(("arguments", "folder"), [([], "debug"), (["--trace-kernel-output", "a/b"], "a/b")])
def test_the_folder_is_that_of_the_start(pytester, run, arguments, folder):
    pytester.makepyfile(
        """
        from tileops.trace import trace

        def test_output(tmp_path, monkeypatch):
            monkeypatch.chdir(tmp_path)
            print("output:", trace.output)
        """
    )
    result = run("--trace-kernel", "-s", *arguments)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"tileops: timelines * go to {folder}/", f"*output: {pytester.path / folder}"])


def test_the_summary_names_the_timelines_of_this_run(pytester, run):
    folder = pytester.mkdir("debug")
    (folder / "gemm.html").write_text("an earlier run's")
    pytester.makepyfile(
        """
        import torch
        from tileops.kernels.gemm.blocked_cpu import build_gemm
        from tileops.trace import trace

        def test_kernel():
            a, b = torch.randn(32, 32), torch.randn(32, 32)
            c = trace.run(build_gemm(32, 32, 32, traced=trace.enabled)(), (a, b), stem="gemm")
            torch.testing.assert_close(c, a @ b)
        """
    )
    result = run("--trace-kernel")
    result.assert_outcomes(passed=1)
    written = [line for line in result.outlines if line.endswith(".html")]
    assert written == ["debug/gemm-2.html"]
    assert (folder / "gemm.html").read_text() == "an earlier run's"
    assert "gemm" in (folder / "gemm-2.html").read_text()

    result = run()
    result.assert_outcomes(passed=1)
    assert "kernel timelines" not in result.stdout.str()
    assert sorted(path.name for path in folder.iterdir()) == [
        "gemm-2.html",
        "gemm-2.tltrace",
        "gemm.html",
        "index.html",
    ]


def test_the_summary_says_when_there_are_none(pytester, run):
    pytester.makepyfile(PASSES)
    run("--trace-kernel").stdout.fnmatch_lines(["none: no test ran a kernel that was built for tracing"])


def test_a_long_list_is_cut(pytester, run):
    pytester.makepyfile(
        """
        from pathlib import Path
        from tileops.trace import trace

        def test_pages():
            Path(trace.output).mkdir()
            for number in range(23):
                Path(trace.output, f"page{number:02}.html").touch()
        """
    )
    result = run("--trace-kernel")
    result.stdout.fnmatch_lines(["debug/page00.html", "debug/page19.html", "and 3 more in debug/"])
    assert "page20" not in result.stdout.str()


def test_workers_of_xdist_trace_too(pytester, run):
    pytester.makepyfile(
        """
        from pathlib import Path
        import pytest
        from tileops.trace import trace

        @pytest.mark.parametrize("number", range(4))
        def test_page(number, worker_id):
            assert worker_id != "master"
            assert trace.enabled
            Path(trace.output).mkdir(exist_ok=True)
            Path(trace.output, f"page{number}.html").touch()
        """
    )
    result = run("--trace-kernel", "-n", "2")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines([f"debug/page{number}.html" for number in range(4)])


def test_a_folder_without_the_flag_is_an_error(pytester, run):
    pytester.makepyfile(PASSES)
    result = run("--trace-kernel-output", "here")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--trace-kernel-output needs --trace-kernel*"])


def test_the_switch_is_off_after_the_run(pytester):
    pytester.makepyfile(PASSES)
    script = pytester.makepyfile(
        script="""
        import pytest
        from tileops.trace import trace

        assert pytest.main(["--trace-kernel"]) == 0
        print("afterwards", trace.enabled)
        """
    )
    pytester.run(sys.executable, script).stdout.fnmatch_lines(["afterwards False"])
