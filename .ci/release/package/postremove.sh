#!/bin/sh
# 'apt purge' deletes data, keys and the user. A removal, and each removal of the .rpm, leaves them.
set -e
if [ "$1" = purge ]; then
	rm -rf /var/lib/debrief /etc/debrief
	if getent passwd debrief >/dev/null; then userdel debrief; fi
fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
