#!/usr/bin/env bash
# Make the namespaces of a host its own, and wait. Variables: NAME, NEEDED, OWN, HIDDEN and HOSTS.
set -e
hostname "$NAME"
mount -t tmpfs none /mnt
i=0
for folder in $NEEDED; do
    i=$((i + 1)); mkdir /mnt/$i; mount --rbind "$folder" /mnt/$i
done
for folder in $OWN; do mount -t tmpfs none "$folder"; done
i=0
for folder in $NEEDED; do
    i=$((i + 1)); mkdir -p "$folder"; mount --rbind /mnt/$i "$folder"
done
umount -R -l /mnt
for folder in $HIDDEN; do mount -t tmpfs none "$folder"; done
printf '%b' "$HOSTS" > /root/hosts
mount --bind /root/hosts /etc/hosts
ip link set lo up
echo ready
while :; do sleep 3600 & wait $!; done
