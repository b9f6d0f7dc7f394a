"""The demo hall: a pod, its people and their jobs, made up but distributed as published traces are.

Read it in this order:

    hall.py    what stands there and who works there: nodes, racks, switches, partitions, teams, projects, users
    load.py    what people submit: when, how big, for how long, how it ends
    story.py   named training runs that go on for weeks, job after job
    machines.py  what is free, and which nodes would do
    programs.py  what the training programs of named runs do and tell: gangs, steps, saves, what stops them
    queue.py   what the scheduler and the nodes make of it: waits, gangs, preemption, faults, requeues
    world.py   all of them together, from a first day on; may be run on to any later moment
    truth.py   what really happened, added up without any of Hallbook's own code
    tell.py    how a Slurm tells it: sacct text, jobcomp posts, hook posts
    looks.py   what asking the scheduler every 30 s shows of the jobs that wait
    people.py  what people say: projects, accounts, prices, a move, a correction
    live.py    the same world in real time, told through the doors

Pure but for `live.py`: no clock, no database; the same (pod, seed, first day) is the same world, and a longer one
begins with the shorter one, event by event.
"""
