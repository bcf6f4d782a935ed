"""kazoo's locks on the other side of a pipe, for kazoo_test.go.

Commands are lines on the standard input, answers lines on the standard output:

    new NAME Lock|ReadLock|WriteLock PATH [PATTERN...]   made NAME
    new NAME Election PATH                               made NAME
    new NAME Semaphore PATH LEASES                       made NAME
    holders NAME       holders NAME ID...
    add PATH DELTA     added PATH VALUE, by a Counter
    try NAME           acquired NAME, or refused NAME
    acquire NAME       acquired NAME, as soon as it is, without holding up others
    release NAME       released NAME
    contenders NAME    contenders NAME ID...
    campaign NAME      leads NAME, as soon as it does, without holding up others
    resign NAME        resigned NAME
    loop NAME ROUNDS PATH    looped NAME CLASHES, when it has held the lock so often;
                       CLASHES counts those times that PATH existed, which everybody
                       creates who is inside
"""

import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError


def main():
    client = KazooClient(sys.argv[1])
    client.start()
    locks, terms, printing = {}, {}, threading.Lock()

    def say(*words):
        with printing:
            print(*words, flush=True)

    def acquire(name):
        locks[name].acquire()
        say("acquired", name)

    def lead(name):
        say("leads", name)
        terms[name].wait()

    def campaign(name):
        locks[name].run(lead, name)
        say("resigned", name)

    def loop(name, rounds, path):
        clashes = 0
        for _ in range(int(rounds)):
            with locks[name]:
                try:
                    client.create(path, ephemeral=True)
                    client.delete(path)
                except NodeExistsError:
                    clashes += 1
        say("looped", name, clashes)

    for line in sys.stdin:
        command, name, *rest = line.split()
        if command == "new":
            kind, path, *patterns = rest
            more = {"extra_lock_patterns": patterns} if patterns else {}
            if kind == "Semaphore":
                more = {"max_leases": int(patterns[0])}
            locks[name] = getattr(client, kind)(path, name, **more)
            say("made", name)
        elif command == "try":
            say("acquired" if locks[name].acquire(blocking=False) else "refused", name)
        elif command == "acquire":
            threading.Thread(target=acquire, args=(name,), daemon=True).start()
        elif command == "release":
            locks[name].release()
            say("released", name)
        elif command == "contenders":
            say("contenders", name, *locks[name].contenders())
        elif command == "holders":
            say("holders", name, *sorted(locks[name].lease_holders()))
        elif command == "add":
            counter = client.Counter(name)
            counter += int(rest[0])
            say("added", name, counter.value)
        elif command == "campaign":
            terms[name] = threading.Event()
            threading.Thread(target=campaign, args=(name,), daemon=True).start()
        elif command == "resign":
            terms[name].set()
        elif command == "loop":
            threading.Thread(target=loop, args=(name, *rest), daemon=True).start()
    client.stop()


main()
