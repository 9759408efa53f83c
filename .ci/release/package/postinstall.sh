#!/bin/sh
# Runs after the installation and after an upgrade, of the .deb ("configure") and of the .rpm (1 or 2).
set -e
if ! getent passwd debrief >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/debrief --no-create-home --shell /usr/sbin/nologin debrief
fi
install -d -m 0750 -o debrief -g debrief /var/lib/debrief
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	# Programs that run continue with the new version; none is started.
	systemctl try-restart debrief.service debrief-nats.service debrief-setup.service debrief-gateway.service \
		'debrief-generator@*' 'debrief-reflector@*' 'debrief-curator@*' || true
fi
