//! What the machine has: memory (of the container, if there is one), free disk, its name.

use std::fs;
use std::path::{Path, PathBuf};

/// Assumed where the system does not say.
const UNKNOWN_MEMORY_BYTES: u64 = 2 << 30;

/// Memory that this process may use, in bytes: the machine's, or less where a control group says.
pub fn memory_bytes() -> u64 {
    let machine = meminfo_total(&fs::read_to_string("/proc/meminfo").unwrap_or_default());
    let group = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = group_limit(&group, Path::new("/sys/fs/cgroup"));
    machine
        .into_iter()
        .chain(limit)
        .min()
        .unwrap_or(UNKNOWN_MEMORY_BYTES)
}

/// Free bytes of the file system that holds `path` or its nearest parent that exists; 0 if the
/// system does not say.
pub fn disk_free_bytes(path: &Path) -> u64 {
    let stat = path.ancestors().find_map(|path| {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        rustix::fs::statvfs(path).ok()
    });
    stat.map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Files and sockets that this process may have open, after asking for as many as it may ask for.
pub fn open_file_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let limit = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised,
        Err(_) => limit,
    };
    limit.current.unwrap_or(u64::MAX)
}

/// Name of the machine in its network; `localhost` if it has none.
pub fn host_name() -> String {
    let name = rustix::system::uname();
    match name.nodename().to_str() {
        Ok(name) if !name.is_empty() => name.to_owned(),
        _ => "localhost".to_owned(),
    }
}

fn meminfo_total(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The lowest limit of a process's control groups and their parents. `group` is the text of
/// `/proc/self/cgroup`.
fn group_limit(group: &str, root: &Path) -> Option<u64> {
    let folders = group.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let path = path.trim_start_matches('/');
        // Version 2 has one hierarchy without a name, version 1 one for each controller.
        match controllers {
            "" => Some((root.join(path), root.to_path_buf(), "memory.max")),
            "memory" => {
                let root = root.join("memory");
                Some((root.join(path), root, "memory.limit_in_bytes"))
            }
            _ => None,
        }
    });
    folders
        .flat_map(|(folder, root, file)| limits(folder, &root, file))
        .min()
}

fn limits(folder: PathBuf, root: &Path, file: &str) -> Vec<u64> {
    let inside = folder
        .ancestors()
        .take_while(|folder| folder.starts_with(root));
    inside
        .filter_map(|folder| {
            fs::read_to_string(folder.join(file))
                .ok()?
                .trim()
                .parse()
                .ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_open_files_is_raised_as_far_as_it_goes() {
        use rustix::process::{Resource, getrlimit};
        let limit = open_file_limit();
        let now = getrlimit(Resource::Nofile);
        assert_eq!(now.current, now.maximum);
        assert_eq!(limit, now.current.unwrap_or(u64::MAX));
    }

    #[test]
    fn memory_is_the_least_of_machine_and_groups() {
        assert_eq!(
            meminfo_total("A: 1 kB\nMemTotal:   24684 kB\n"),
            Some(24684 * 1024)
        );
        assert_eq!(meminfo_total("nothing"), None);
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(root.path().join("a/memory.max"), "1000\n").unwrap();
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        assert_eq!(group_limit("0::/a/b\n", root.path()), Some(1000));
        fs::write(inner.join("memory.max"), "500\n").unwrap();
        assert_eq!(group_limit("0::/a/b\n", root.path()), Some(500));
        assert_eq!(group_limit("0::/other\n5:cpu:/x\n", root.path()), None);
        assert!(memory_bytes() > 1 << 20);
    }

    #[test]
    fn free_disk_of_a_path_that_does_not_exist_yet() {
        let dir = tempfile::tempdir().unwrap();
        assert!(disk_free_bytes(&dir.path().join("a/b/c")) > 0);
        assert!(disk_free_bytes(Path::new("surely/not/here")) > 0);
        assert!(!host_name().is_empty());
    }
}
