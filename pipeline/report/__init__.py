"""What readers of a run get: JUnit XML, summary, merged reports."""
