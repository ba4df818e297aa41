"""What all packages of the pipeline share: jobs and results, words, files, memories."""
