"""The workloads: what is under test, each declared in one place. Knows `golden` and `kernels`.

`base` has the types of a declaration, `form` those that say what a program is made of, `stages` what the
compare lane does with it; `registry` finds a declaration by its name or in a user's file. The others are the
workloads that are shipped.
"""
