//! Which file systems are good for a database that processes of one machine share.
//!
//! The write-ahead log needs memory that all its users share, and the wake-ups need sockets: both end at the border of
//! the machine. A file system that several machines can mount would let each of them believe it has the lock.

/// Whether all users of the file system are on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// They are.
    Local,
    /// They may be elsewhere, or nobody knows.
    Shared,
    /// The number is not enough to tell: ask for the name.
    Unknown,
}

/// By the number that `statfs` gives, for the few that nearly everyone has.
pub(super) fn by_magic(magic: u64) -> Reach {
    match magic {
        0xEF53            // ext2, ext3, ext4
        | 0x5846_5342     // xfs
        | 0x9123_683E     // btrfs
        | 0x0102_1994     // tmpfs
        | 0x8584_58F6     // ramfs
        | 0x794C_7630     // overlay
        | 0x2FC1_2FC1     // zfs
        | 0xF2F5_2010     // f2fs
        | 0xCA45_1A4E     // bcachefs
            => Reach::Local,
        0x6969            // nfs
        | 0xFF53_4D42     // cifs
        | 0xFE53_4D42     // smb2
        | 0x517B          // smb
        | 0x0102_1997     // 9p
            => Reach::Shared,
        _ => Reach::Unknown,
    }
}

/// By the name in the table of mounts. One that is not known is refused: it may be shared.
pub(super) fn by_name(name: &str) -> Reach {
    const LOCAL: &[&str] = &[
        "ext2",
        "ext3",
        "ext4",
        "xfs",
        "btrfs",
        "tmpfs",
        "ramfs",
        "overlay",
        "zfs",
        "f2fs",
        "bcachefs",
        "jfs",
        "reiserfs",
        "nilfs2",
        "ubifs",
        "jffs2",
        "yaffs2",
        "hfs",
        "hfsplus",
        "apfs",
        "vfat",
        "msdos",
        "exfat",
        "ntfs",
        "ntfs3",
        "udf",
        "ufs",
        "minix",
        "aufs",
        "ecryptfs",
        "fuseblk",
        "fuse.fuse-overlayfs",
        "rootfs",
    ];
    if LOCAL.contains(&name) { Reach::Local } else { Reach::Shared }
}

/// The name of the file system of a device, from the text of `/proc/self/mountinfo`. The last line for it counts: what
/// is mounted later covers what was there.
pub(super) fn name_in(mountinfo: &str, major: u32, minor: u32) -> Option<&str> {
    let device = format!("{major}:{minor}");
    mountinfo.lines().rev().find_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        (mount.split(' ').nth(2)? == device).then(|| file_system.split(' ').next())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_machine_can_mount_is_refused() {
        for name in [
            "nfs",
            "nfs4",
            "cifs",
            "smb3",
            "smbfs",
            "9p",
            "virtiofs",
            "fuse.sshfs",
            "fuse.s3fs",
            "fuse",
            "ceph",
            "fuse.ceph-fuse",
            "fuse.glusterfs",
            "lustre",
            "gfs2",
            "ocfs2",
            "afs",
            "coda",
            "ncpfs",
            "vboxsf",
            "fuse.vmhgfs-fuse",
            "vmhgfs",
            "prl_fs",
            "beegfs",
            "gpfs",
            "orangefs",
            "fuse.grpcfuse",
            "drvfs",
            "of a later century",
        ] {
            assert_eq!(by_name(name), Reach::Shared, "{name}");
        }
        for magic in [0x6969, 0xFF53_4D42, 0xFE53_4D42, 0x517B, 0x0102_1997] {
            assert_eq!(by_magic(magic), Reach::Shared, "{magic:x}");
        }
    }

    #[test]
    fn the_disks_of_one_machine_are_good() {
        for name in ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "f2fs", "bcachefs", "fuseblk", "vfat"] {
            assert_eq!(by_name(name), Reach::Local, "{name}");
        }
        assert_eq!(by_name("fuse.fuse-overlayfs"), Reach::Local);
    }

    #[test]
    fn a_number_that_stands_for_many_is_looked_up_by_name() {
        const FUSE: u64 = 0x6573_5546;
        assert_eq!(by_magic(FUSE), Reach::Unknown);
    }

    #[test]
    fn the_name_is_found_by_the_device() {
        let table = "\
            22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
            30 22 0:25 / /mnt/a\\040b rw shared:5 master:2 - fuse.sshfs me@there:/x rw\n\
            31 22 0:26 /sub /mnt/c rw,relatime - virtiofs share rw\n\
            not a line of this table\n\
            32 22 0:26 / /mnt/d rw - 9p share rw\n";
        assert_eq!(name_in(table, 254, 0), Some("ext4"));
        assert_eq!(name_in(table, 0, 25), Some("fuse.sshfs"));
        assert_eq!(name_in(table, 0, 26), Some("9p"));
        assert_eq!(name_in(table, 0, 27), None);
        assert_eq!(name_in("", 0, 0), None);
    }
}
