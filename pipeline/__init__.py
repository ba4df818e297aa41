"""The pipeline: matrix to jobs, jobs to results, results to reports."""
