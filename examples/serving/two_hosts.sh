#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Serves a model on two hosts, which Ray joins, and prints the answer to one request. The hosts are two network
# namespaces of this machine, so this needs root. On real hosts, run the commands after "on" on each of them.
# usage: examples/serving/two_hosts.sh VENV MODEL PROMPT [ARGUMENTS of vllm serve]
set -euo pipefail

venv=$1 model=$2 prompt=$3
shift 3
readonly kFirst=10.77.0.1 kSecond=10.77.0.2 kPort=8000
readonly kNames=(npugraph-$$-1 npugraph-$$-2)
work=$(mktemp -d)
# Both hosts show Ray this token, without which nobody can join.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$work/token
od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$RAY_AUTH_TOKEN_PATH"

# Runs a command on host 1 or 2. Ray, vLLM and gloo then use the address of that host and its interface.
on() {
  local host=$1
  shift
  local address=$kFirst
  [[ $host == 1 ]] || address=$kSecond
  RAY_ADDRESS=$kFirst:6379 VLLM_HOST_IP=$address GLOO_SOCKET_IFNAME=npugraph PATH="$venv/bin:$PATH" \
    ip netns exec "${kNames[host - 1]}" "$@"
}

# Ends all that runs on the hosts, which is only what this script has started.
tidy() {
  for name in "${kNames[@]}"; do
    ip netns pids "$name" | xargs -r kill -9 || true
    ip netns delete "$name" || true
  done
  rm -rf "$work"
}
trap tidy EXIT

make_hosts() {
  ip netns add "${kNames[0]}"
  ip netns add "${kNames[1]}"
  ip link add npugraph netns "${kNames[0]}" type veth peer name npugraph netns "${kNames[1]}"
  on 1 ip address add $kFirst/24 dev npugraph
  on 2 ip address add $kSecond/24 dev npugraph
  for host in 1 2; do
    on $host ip link set lo up
    on $host ip link set npugraph up
  done
}

start_ray() {
  local common=(--resources '{"NPU": 1}' --num-cpus 2 --object-store-memory 100000000 --disable-usage-stats)
  on 1 ray start --head --node-ip-address $kFirst --temp-dir "$work" --include-dashboard false "${common[@]}"
  on 2 ray start --address $kFirst:6379 --node-ip-address $kSecond "${common[@]}"
}

# Prints how many devices of each host are in use.
show_devices() {
  on 1 python - <<'END'
import ray
from ray._private.state import available_resources_per_node

ray.init(logging_level="ERROR", log_to_driver=False)
free = available_resources_per_node()
for node in sorted(ray.nodes(), key=lambda node: node["NodeManagerAddress"]):  # Ray has them in any order
    used = node["Resources"]["NPU"] - free[node["NodeID"]].get("NPU", 0)
    print(f"host {node['NodeManagerAddress']}: {used:g} NPU in use")
END
}

make_hosts
start_ray >"$work/ray.log" 2>&1 || { cat "$work/ray.log" >&2; exit 1; }
on 1 vllm serve "$model" --port $kPort --distributed-executor-backend ray \
  --additional-config '{"npugraph_ex_config":{"enable":true, "enable_static_kernel":false}}' "$@" \
  >"$work/serve.log" 2>&1 &
server=$!
until on 1 curl -sf http://$kFirst:$kPort/health; do
  kill -0 $server 2>/dev/null || { cat "$work/serve.log" >&2; exit 1; }
  sleep 1
done
show_devices 2>/dev/null
on 2 curl -sf http://$kFirst:$kPort/v1/completions -H 'Content-Type: application/json' -d "$(
  "$venv/bin/python" -c 'import json, sys; print(json.dumps({"model": sys.argv[1], "prompt": sys.argv[2],
    "max_tokens": 12, "temperature": 0, "return_token_ids": True}))' "$model" "$prompt"
)"
