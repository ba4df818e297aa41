"""Small edits of the kernels' source: does the proof detect them, and does it name the edited line?"""
