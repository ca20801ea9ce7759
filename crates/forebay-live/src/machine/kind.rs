//! What kind of thing a backing device is, by its place among the devices and its name.

use super::{Kind, Mount};

/// A disk's kind: by its driver's place in the tree of devices, by its name, and, for SCSI, by what
/// it says of itself, since hypervisors show their disks as SCSI too.
pub(super) fn of_disk(name: &str, place: &str, model: &str) -> Kind {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if begins(&["dm-", "md", "bcache", "drbd"]) {
        Kind::Stacked
    } else if begins(&["loop"]) {
        Kind::Loop
    } else if begins(&["zram", "ram", "pmem", "brd"]) {
        Kind::Memory
    } else if begins(&["nvme"]) {
        Kind::Nvme
    } else if begins(&["mmcblk"]) {
        Kind::Mmc
    } else if begins(&["nbd", "rbd"]) {
        Kind::Network
    } else if begins(&["vd", "xvd"]) || VIRTUAL_PLACES.iter().any(|it| place.contains(it)) {
        Kind::Virtual
    } else if begins(&["sd", "sr", "hd"]) {
        let virtual_model = VIRTUAL_MODELS.iter().any(|it| model.contains(it));
        if virtual_model { Kind::Virtual } else { Kind::Scsi }
    } else {
        Kind::Other
    }
}

/// The kind of a backing device without a disk, by what is mounted with its number.
pub(super) fn of_mount(mount: &Mount) -> Kind {
    match mount.kind.as_str() {
        "nfs" | "nfs4" | "cifs" | "smb3" | "ceph" | "9p" | "afs" | "lustre" | "gfs2"
        | "orangefs" => Kind::Network,
        "fuse" | "fuseblk" | "virtiofs" => Kind::Fuse,
        kind if kind.starts_with("fuse.") => Kind::Fuse,
        _ => Kind::Other,
    }
}

/// Parts of the places of virtio, Hyper-V and Xen disks.
const VIRTUAL_PLACES: [&str; 3] = ["/virtio", "/VMBUS:", "/vbd-"];

/// Parts of what virtual SCSI disks say of themselves: QEMU, VMware, Hyper-V, Google, VirtualBox.
const VIRTUAL_MODELS: [&str; 5] = ["QEMU", "VMware", "Msft", "PersistentDisk", "VBOX"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_known_by_place_name_or_model() {
        let pci = "../devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda";
        let vmbus = "../devices/LNXSYSTM:00/VMBUS:00/f8b3781b/host0/block/sda";
        for (name, place, model, wanted) in [
            ("vda", "../devices/pci0000:00/0000:00:02.0/virtio1/block/vda", "", Kind::Virtual),
            (
                "sda",
                "../devices/pci0000:00/0000:00:05.0/virtio2/host2/block/sda",
                "",
                Kind::Virtual,
            ),
            ("sda", vmbus, "", Kind::Virtual),
            ("sda", pci, "VMware Virtual disk", Kind::Virtual),
            ("sda", pci, "ATA ST4000NM0035", Kind::Scsi),
            ("nvme0n1", "../devices/pci0000:00/nvme/nvme0/nvme0n1", "", Kind::Nvme),
            ("mmcblk0", "../devices/platform/mmc_host/mmc0/block/mmcblk0", "", Kind::Mmc),
            ("dm-0", "../devices/virtual/block/dm-0", "", Kind::Stacked),
            ("loop7", "../devices/virtual/block/loop7", "", Kind::Loop),
            ("zram0", "../devices/virtual/block/zram0", "", Kind::Memory),
            ("ublkb0", "../devices/virtual/block/ublkb0", "", Kind::Other),
        ] {
            assert_eq!(of_disk(name, place, model), wanted, "{name} {place}");
        }
    }
}
