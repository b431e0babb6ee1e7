// What the page's scripts find in their window, for the type checker.

declare global {
  interface Window {
    /** Plotly's library. It has no types of its own that fit the bundle. */
    Plotly: any;
    /** The page, for a console and for tests. */
    tileops: unknown;
  }
}

export {};
