"""The Debian packages that each suite needs, installed if they are missing."""

import os
import shutil
import subprocess


APACHE = ("zookeeper", "libzookeeper-java", "default-jre-headless")

# By suite. With pinfold as the target some suites would do with less, but an
# equal environment is worth more than the seconds.
NEEDED = {
    "fourletter": ("python3-kazoo", *APACHE),
    "cli_mt": ("zookeeper-bin", *APACHE),
    "zkcli": APACHE,
    "datadir": ("python3-kazoo", *APACHE),
    "gozk": APACHE,
    # The compiler is what Debian's jetty, which ZooKeeper needs, has for JSPs.
    "curator": ("libcurator-recipes-java", "libguava-java", "libjackson2-databind-java",
                "libeclipse-jdt-core-java", *APACHE),
    "kazoo": ("python3-kazoo", "python3-pytest", "python3-mock", "python3-objgraph",
              "python3-pure-sasl", "python3-gevent", "python3-eventlet", *APACHE),
}


class MissingPackage(Exception):
    pass


def ensure(names):
    """Installs those of names that are missing. Needs root for that, else raises."""
    missing = [n for n in names if not _installed(n)]
    if not missing:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise MissingPackage("run first: " + " ".join(command))
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        subprocess.run(["apt-get", "update"], env=env, capture_output=True)
        done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        raise MissingPackage(f"{' '.join(command)}:\n{done.stderr}")


def _installed(name):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Status}", name],
                          capture_output=True, text=True)
    return done.stdout == "install ok installed"
