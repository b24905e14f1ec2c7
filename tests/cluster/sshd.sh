# Serve ssh on a simulated host.
mkdir -p /run/sshd
ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/host
exec /usr/sbin/sshd -D -e -f /dev/null -o HostKey=/root/.ssh/host -o PermitRootLogin=yes \
    -o StrictModes=no -o UsePAM=no -o PidFile=none
