#!/usr/bin/env bash
# Build the image and run its CPU suite (with a GPU: the GPU's too) with the first of docker, podman
# and buildah that works here; `make container` calls it. The figures come to container/out.
#
#   BASE_IMAGE   another base image than the Dockerfile's
#   CUPY         another CuPy; CUPY= (empty) leaves it out: an image for the CPU suite only
#   ARGUMENTS    what `gradhook bench` gets in the container, for example "--quick"
#   CONTAINER_TOOL, CONTAINER_OPTIONS   one of the three; its options for build (volumes, network)
set -euo pipefail
cd "$(dirname "$0")/.."

image=gradhook-bench
out=$PWD/container/out
read -ra arguments <<<"${ARGUMENTS:-}"
read -ra options <<<"${CONTAINER_OPTIONS:-}"
[ -n "${BASE_IMAGE:-}" ] && options+=(--build-arg "BASE_IMAGE=$BASE_IMAGE")
[ -n "${CUPY+set}" ] && options+=(--build-arg "CUPY=$CUPY")

works() { # a docker client without a daemon is installed, but of no use
    case $1 in
        docker | podman) "$1" info >/dev/null 2>&1 ;;
        buildah) buildah version >/dev/null 2>&1 ;;
    esac
}

tool=${CONTAINER_TOOL:-}
for candidate in docker podman buildah; do
    [ -z "$tool" ] && works "$candidate" && tool=$candidate
done
if [ -z "$tool" ]; then
    echo "make container: found none of docker, podman and buildah that works here; install one" \
        "(apt-get install buildah) or start docker's daemon" >&2
    exit 1
fi
mkdir -p "$out"
[ "$(id -u)" = 0 ] && chown 1000:1000 "$out" # the image's user
rm -f "$out"/{table.md,results.json,pytest-benchmark.json,bench.png}
started=$SECONDS

if [ "$tool" = buildah ]; then
    # BUILDAH_STORAGE: a folder of its own for images, outside the checkout
    storage=${BUILDAH_STORAGE:-${XDG_CACHE_HOME:-$HOME/.cache}/gradhook-container}
    b=(buildah --storage-driver "${BUILDAH_DRIVER:-overlay}"
        --root "$storage/root" --runroot "$storage/run")
    "${b[@]}" build --isolation chroot --network host --pull=missing --layers \
        "${options[@]}" -t "localhost/$image" .
    size=$("${b[@]}" images --format '{{.Size}}' "localhost/$image")
    # `buildah run` ignores ENTRYPOINT, and has no --gpus: user and words come from the image
    mapfile -t words < <("${b[@]}" inspect --type image "localhost/$image" | python3 -c '
import json, sys
config = json.load(sys.stdin)["OCIv1"]["config"]
print(config["User"], *config["Entrypoint"], sep="\n")')
    user=${words[0]}
    echo "== $tool built $image ($size) in $((SECONDS - started)) s; running it as user $user"
    container=$("${b[@]}" from --pull-never "localhost/$image")
    trap '"${b[@]}" rm "$container" >/dev/null' EXIT
    "${b[@]}" run --isolation chroot --user "$user" -v "$out:/out" "$container" -- \
        "${words[@]:1}" "${arguments[@]}"
else
    "$tool" build "${options[@]}" -t "$image" .
    bytes=$("$tool" image inspect --format '{{.Size}}' "$image")
    echo "== $tool built $image ($((bytes / 1000000)) MB) in $((SECONDS - started)) s"
    gpus=()
    if nvidia-smi >/dev/null 2>&1; then
        [ "$tool" = docker ] && gpus=(--gpus all) || gpus=(--device nvidia.com/gpu=all)
    fi
    "$tool" run --rm --network none "${gpus[@]}" -v "$out:/out" "$image" "${arguments[@]}"
fi
for file in table.md results.json bench.png; do
    [ -s "$out/$file" ] || { echo "make container: $out/$file was not written" >&2; exit 1; }
done
echo "== wrote $(cd "$out" && ls | tr '\n' ' ')to $out"
