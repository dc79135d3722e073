"""Local pages in a browser: `penstock open` explores an output, and `penstock play` reruns a small scenario.

The charts are those of uPlot (MIT, 51 KB in `vendor/`): it draws a million points without a framework or a build step.
"""
