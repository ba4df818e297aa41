"""The executor that runs processes on the nodes of a Ray cluster. Only `liaison` imports Ray.

    controller                 the command's process: `executor` has the nodes' places, and knows no Ray
      liaison                  a process of its own: the driver of Ray; ends it if Ray ends it
        node                   an actor on each node: starts the steward and carries its lines
          steward              a process of its own there: keepers, nursery and device locks, as on one host

Before all that, `head` asks whether there is a head of a cluster at the address. A Ray worker has many
threads, so nothing is forked in one: the steward is a fresh interpreter.
"""
