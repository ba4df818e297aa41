"""What all rooms share: jobs and results, words, files, tilings."""
