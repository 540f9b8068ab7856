"""The named transitions of a run, drawn in docs/explanation/runs.md; a refused transition is a normal result.

Read `transition`, then the phases: `before_start`, `lease`, `settling`, `ending`.
"""
