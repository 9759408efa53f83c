#!/bin/sh
# Stops the programs before a removal: "remove" of the .deb, 0 of the .rpm. An upgrade restarts them afterwards.
set -e
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now debrief.service debrief-gateway.service debrief-setup.service debrief-nats.service >/dev/null 2>&1 || true
		systemctl stop 'debrief-generator@*' 'debrief-reflector@*' 'debrief-curator@*' || true
	fi
	;;
esac
