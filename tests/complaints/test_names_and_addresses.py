"""Names that cannot be resolved, or lead elsewhere later, and IPv6: each connect asks anew, and nothing is given up for good.

query-exporter#273, oracle-db-appdev-monitoring#427
"""

import httpx

from tests.complaints.own_mounts import OwnHosts
from tests.complaints.test_t01_mute_peer import HEALTHY, assert_rhythm, runs
from tests.watched import BOTH, settings

UP = "tde_target_up"
ERRORS = "tde_target_connection_errors_total"
NAMES = {"mariadb": "maria.test.invalid", "mysql": "my.test.invalid"}


def test_names_that_fail_appear_move_and_vanish(everywhere, daemon, make_proxy):
    proxies = [make_proxy(watched.server.address) for watched in everywhere]
    targets = [
        watched.target((NAMES[watched.engine], proxy.port)) for watched, proxy in zip(everywhere, proxies, strict=True)
    ]
    exporter = daemon(settings(HEALTHY, *targets))
    hosts = OwnHosts(exporter)
    exporter.start().serving()
    exporter.until_all(BOTH, lambda page, name: page.total(ERRORS, target=name, reason="connect") >= 2, "unknown names")
    exporter.until_said("the name cannot be resolved", times=2)
    assert_rhythm(exporter, "healthy", rounds=2)

    hosts.say(dict.fromkeys(NAMES.values(), "127.0.0.1"))
    exporter.until_all(BOTH, runs, "both to be measured")
    # The service moves: what is open goes on, the next connect goes to the new place, where nobody is yet.
    hosts.say(dict.fromkeys(NAMES.values(), "127.0.0.9"))
    for proxy in proxies:
        proxy.drop()
    exporter.until_all(BOTH, lambda page, name: page.value(UP, target=name) == 0, "both to be down")
    accepted = [proxy.accepted for proxy in proxies]
    exporter.until_said("connection refused", times=2)
    assert [proxy.accepted for proxy in proxies] == accepted

    hosts.say(dict.fromkeys(NAMES.values(), "127.0.0.1"))
    exporter.until_all(BOTH, lambda page, name: page.value(UP, target=name) == 1, "both to be up", patience=100)


def test_everything_over_ipv6(everywhere, daemon, make_proxy):
    proxies = [make_proxy(watched.server.address, "::1") for watched in everywhere]
    targets = [watched.target(("::1", proxy.port)) for watched, proxy in zip(everywhere, proxies, strict=True)]
    exporter = daemon(settings(*targets, web={"listen_address": "::1"}))
    exporter.url = f"http://[::1]:{exporter.port}"
    exporter.start().serving()
    exporter.until_all(BOTH, runs, "both to be measured")
    assert httpx.get(f"{exporter.url}/").status_code == 200
    for proxy in proxies:
        proxy.refuse()
    exporter.until_all(BOTH, lambda page, name: page.value(UP, target=name) == 0, "both to be down")
    # What was open broke off, and says nothing of an address; the next attempt is refused, and does.
    for proxy in proxies:
        exporter.until_said(f"[::1]:{proxy.port}")
