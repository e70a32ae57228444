#!/usr/bin/env bash
# Runs docker-compose.yml for real: builds its images from Debian packages and a binary, brings it up, uses it through
# the load balancer, kills and stops replicas, takes it down. Then the same as chaos experiments use it: with two faults.
# Usage: tests/compose.sh BINARY          (the tests' debug build will do; examples/nemesis of chaos must be beside it)
# Needs root, a mirror of Debian (apt's own, or DEBIAN_MIRROR) and a Docker engine. If none answers, scripts/with-docker
# starts one for its time; docker.io, docker-compose and debootstrap come through apt. Where that cannot be, the test says so
# and passes; with COMPOSE_TEST=required it fails, as the gate has it; with any other COMPOSE_TEST, which says why it cannot be
# here, it passes and shows that.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly BINARY="$(realpath "${1:?BINARY is missing}")"
export PATH="$PWD/target/tools/bin:$PATH:/usr/sbin:/sbin"
SCRATCH="$(mktemp -d /tmp/trireme-compose.XXXXXX)"
readonly SCRATCH
UP=no WATCH="" LOAD=""

say() { printf 'compose: %3s s: %s\n' "$SECONDS" "$*"; }
fail() {
    printf 'compose: FAILED: %s\n' "$*" >&2
    if [[ "$UP" == yes ]]; then compose ps >&2 || true; compose logs --no-color --tail=30 >&2 || true; fi
    exit 1
}
cannot() { # WHY: not a failure of the project
    local known="${COMPOSE_TEST:-}"
    printf '\n%s\n' "###############################################################################" \
        "### docker-compose.yml WAS NOT TESTED: $1${known:+ (COMPOSE_TEST: $known)}" \
        "###############################################################################" >&2
    [[ "$known" != required ]] || exit 1
    exit 0
}

cleanup() {
    local status=$?
    trap - EXIT
    for pid in $WATCH $LOAD; do kill "$pid" 2>/dev/null || true; done
    [[ "$UP" == no ]] || compose down --volumes --timeout 5 >"$SCRATCH/down.log" 2>&1 || cat "$SCRATCH/down.log" >&2
    rm -rf "$SCRATCH"
    exit "$status"
}
trap cleanup EXIT

# Returns if a Docker engine answers; else runs all of this again within one, and ends.
find_engine() {
    if docker info >/dev/null 2>&1; then return; fi
    local status=0
    scripts/with-docker tests/compose.sh "$BINARY" || status=$?
    [[ "$status" != 69 ]] || cannot "a Docker engine does not run here, see above"
    exit "$status"
}

if docker compose version >/dev/null 2>&1; then COMPOSE=(docker compose); else COMPOSE=(docker-compose); fi
compose() { "${COMPOSE[@]}" --env-file target/images/compose.env --project-name "trireme-test-$$" "$@"; }
k() { kubectl --kubeconfig "$SCRATCH/admin.kubeconfig" --request-timeout=5s "$@"; }
now_ms() { date +%s%3N; }

until_true() { # SECONDS WHAT COMMAND...
    local end=$(($(now_ms) + $1 * 1000)) what="$2"
    shift 2
    until "$@" >"$SCRATCH/try.log" 2>&1; do
        if (($(now_ms) > end)); then
            cat "$SCRATCH/try.log" >&2
            fail "$what"
        fi
        sleep 0.2
    done
}

choose_ports() {
    read -r TRIREME_PORT HAPROXY_STATS_PORT PROMETHEUS_PORT < <(python3 - <<'PY'
import socket
sockets = [socket.socket() for _ in range(3)]
for each in sockets:
    each.bind(("127.0.0.1", 0))
print(*(each.getsockname()[1] for each in sockets))
PY
    )
    export TRIREME_PORT HAPROXY_STATS_PORT PROMETHEUS_PORT
}

# What the load balancer says of the replicas: one line "NAME STATUS" each.
rotation() { python3 tests/compose.py rotation "http://127.0.0.1:$HAPROXY_STATS_PORT"; }
in_rotation() { [[ "$(rotation | grep -c ' UP$')" == "$1" ]]; }
is_out() { rotation | grep -qE "^$1 (DOWN|MAINT)"; }
creates() { k create configmap "$1" --from-literal=a=b; }

bring_up() {
    compose config --quiet
    UP=yes
    local began
    began="$(now_ms)"
    compose up --detach >"$SCRATCH/up.log" 2>&1 || { cat "$SCRATCH/up.log" >&2; fail "it does not come up"; }
    compose exec -T trireme-1 cat /pki/admin.kubeconfig >"$SCRATCH/admin.kubeconfig" || fail "no admin.kubeconfig"
    until_true 60 "kubectl gets no answer through the load balancer" k get namespace default
    until_true 60 "not all three replicas came into rotation" in_rotation 3
    say "up after $(($(now_ms) - began)) ms:"
    k get leases --namespace kube-system
}

use_it() {
    k get configmaps --watch --output name >"$SCRATCH/watch.log" 2>&1 --request-timeout=0 &
    WATCH=$!
    until_true 10 "no watch" grep -q configmap/kube-root-ca.crt "$SCRATCH/watch.log"
    creates first >/dev/null || fail "nothing can be created"
    [[ "$(k get configmap first --output 'jsonpath={.data.a}')" == b ]] || fail "what was created is not there"
    until_true 5 "the watch does not see what was created" grep -q configmap/first "$SCRATCH/watch.log"
    k delete configmap first >/dev/null || fail "nothing can be deleted"
}

kill_a_replica() {
    local victim="$1" began gap
    docker kill "$(compose ps --quiet "$victim")" >/dev/null
    began="$(now_ms)"
    until_true 2 "nothing was written within 2 s after $victim was killed" creates "after-$victim"
    gap=$(($(now_ms) - began))
    say "killed $victim: the next write was there after $gap ms"
    # A connection that the load balancer is just making to the dead one is cut when it notices.
    until_true 3 "the load balancer does not take $victim out" is_out "$victim"
    for n in $(seq 10); do
        creates "$victim-$n" >/dev/null || fail "write $n after the death of $victim failed"
    done
    until_true 20 "the group does not say that $victim is gone" group_has 2
    say "trireme cluster status, through the load balancer:"
    group
    docker start "$(compose ps --all --quiet "$victim")" >/dev/null
    until_true 30 "$victim did not come back into rotation" in_rotation 3
    until_true 20 "$victim did not come back into the group" group_has 3
}

group() { "$BINARY" cluster status --kubeconfig "$SCRATCH/admin.kubeconfig"; }
# How many members are alive and that there is a leader, as /debug/replicas says.
group_has() { k get --raw /debug/replicas | python3 tests/compose.py alive "$1"; }

# While one is stopped as an upgrade does it, new connections go elsewhere, and what is under way is finished:
# no request is lost.
stop_a_replica() {
    local victim="$1" failures
    python3 tests/compose.py load "$SCRATCH/admin.kubeconfig" "$SCRATCH/load.stop" >"$SCRATCH/load.log" 2>&1 &
    LOAD=$!
    until_true 10 "no load" grep -q started "$SCRATCH/load.log"
    compose stop "$victim" >/dev/null 2>&1
    touch "$SCRATCH/load.stop"
    wait "$LOAD" || { cat "$SCRATCH/load.log" >&2; fail "requests failed while $victim was stopped"; }
    LOAD=""
    say "stopped $victim under load: $(tail -n 1 "$SCRATCH/load.log")"
    compose start "$victim" >/dev/null 2>&1
    until_true 30 "$victim did not come back into rotation" in_rotation 3
}

look_at_metrics() {
    until_true 60 "Prometheus does not reach all that it looks at" \
        python3 tests/compose.py targets "http://127.0.0.1:$PROMETHEUS_PORT" 7
    python3 tests/compose.py expressions "http://127.0.0.1:$PROMETHEUS_PORT" \
        deploy/grafana/dashboards/trireme.json || fail "the dashboard asks for what is not there"
    say "Prometheus reaches 7 targets, and each panel of the dashboard has data"
}

take_down() {
    compose down --volumes --timeout 5 >"$SCRATCH/down.log" 2>&1 || { cat "$SCRATCH/down.log" >&2; fail "it does not go"; }
    UP=no
}

# The chaos experiments' world of containers comes up, is seen to break, comes back, and leaves nothing.
break_a_world() {
    local nemesis
    nemesis="$(dirname "$BINARY")/examples/nemesis"
    [[ -x "$nemesis" ]] || fail "there is no $nemesis; run: cargo build -p trireme-chaos --example nemesis"
    "$nemesis" --compose 2 11 >"$SCRATCH/nemesis.log" 2>&1 &
    LOAD=$!
    wait "$LOAD" || { cat "$SCRATCH/nemesis.log" >&2; fail "a world of containers did not break and heal as it should"; }
    [[ -z "$(docker ps --all --quiet --filter "name=trireme-chaos-$LOAD-")" ]] || fail "containers are left"
    LOAD=""
    say "chaos over containers:"
    grep --no-group-separator -A 1 '^[ 0-9][0-9] ' "$SCRATCH/nemesis.log"
}

main() {
    [[ "$(id -u)" == 0 ]] || cannot "starting a Docker engine and making images from Debian packages need root"
    scripts/install-tools docker images || cannot "Docker and debootstrap could not be installed, see above"
    DEBIAN_MIRROR="$(scripts/debian-mirror)" || cannot "no image can be made without a mirror of Debian, see above"
    export DEBIAN_MIRROR
    python3 tests/compose.py reaches "$DEBIAN_MIRROR" || cannot "no image can be made, as $DEBIAN_MIRROR is out of reach"
    find_engine
    scripts/images "$BINARY"
    choose_ports
    bring_up
    use_it
    kill_a_replica trireme-2
    stop_a_replica trireme-3
    look_at_metrics
    take_down
    break_a_world
    say "passed"
}

main
