# SPDX-License-Identifier: Apache-2.0
# For scripts that take packages of a Debian that is not this system's. Source it.

# The mirror of which this machine, a Debian 12, takes its packages.
mirror() {
  apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' 2>/dev/null | awk '$2 == "bookworm" {print $1; exit}'
}

# usage: make_apt FOLDER deb|deb-src RELEASE [OPTION...]
# Afterwards "${apt[@]}" is an apt-get that knows this release alone, and keeps what it knows in FOLDER.
make_apt() {
  local folder=$1 kind=$2 release=$3 from
  shift 3
  from=$(mirror)
  [[ -n $from ]] || { echo "make_apt: apt has no packages of Debian 12, whose mirror is asked for those of $release" >&2; return 1; }
  mkdir -p "$folder"/{lists,archives}/partial
  echo "$kind $from $release main" >"$folder/sources.list"
  apt=(apt-get -qq -o APT::Sandbox::User=root -o Dir::Etc::SourceList="$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o Dir::State::Lists="$folder/lists" -o Dir::Cache="$folder" "$@")
  "${apt[@]}" update
}
