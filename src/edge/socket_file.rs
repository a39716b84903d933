//! The file of a UNIX socket: made where a dead process may have left one, and removed by its last owner.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

/// A socket's file, which goes when this value goes, unless it is not (or no longer) ours to remove.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode, so that only the file that we know is removed and never one that another process put there.
    identity: (u64, u64),
    ours: bool,
}

impl SocketFile {
    /// The file at this path, which another process still owns. `None`: it is no socket's, or not there.
    pub fn of_another(path: &Path) -> Option<SocketFile> {
        let metadata = fs::symlink_metadata(path).ok().filter(|metadata| metadata.file_type().is_socket())?;
        Some(SocketFile { path: path.to_owned(), identity: identity(&metadata), ours: false })
    }

    /// Takes it over: from now on it is removed with this value, and who may connect is for us to say.
    ///
    /// # Errors
    /// The permissions cannot be set.
    pub fn take_over(&mut self, permissions: u32) -> io::Result<()> {
        self.ours = true;
        fs::set_permissions(&self.path, fs::Permissions::from_mode(permissions))
    }

    /// Leaves it in its place, for whoever listens there next.
    pub fn leave(&mut self) {
        self.ours = false;
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let there = fs::symlink_metadata(&self.path).ok().map(|metadata| identity(&metadata));
        if self.ours && there == Some(self.identity) {
            // a file that cannot be removed is replaced at the next start
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Binds a UNIX socket with these permissions, which hold before anybody can connect. The file of a process that has gone is
/// replaced.
///
/// # Errors
/// The path cannot be had: `AddrInUse` when a process listens there, `AlreadyExists` when something else than a socket is in
/// the way.
pub fn bind(path: &Path, permissions: u32, backlog: i32) -> io::Result<(UnixListener, SocketFile)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    let address = SockAddr::unix(path)?;
    if let Err(error) = socket.bind(&address) {
        if error.kind() != io::ErrorKind::AddrInUse {
            return Err(error);
        }
        remove_stale(path, &address)?;
        socket.bind(&address)?;
    }
    let mut file = SocketFile::of_another(path).ok_or(io::ErrorKind::NotFound)?;
    file.take_over(permissions)?;
    // until it listens, nobody can connect
    socket.listen(backlog)?;
    Ok((socket.into(), file))
}

fn remove_stale(path: &Path, address: &SockAddr) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // a full queue must not hold us up, and shows that somebody listens
    probe.set_nonblocking(true)?;
    match probe.connect(address) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tidegate-socket-file-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn the_file_goes_with_its_owner_and_has_the_mode_that_was_asked_for() {
        let path = folder("goes").join("a.sock");
        let (listener, file) = bind(&path, 0o620, 16).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o620);
        assert!(UnixStream::connect(&path).is_ok());
        drop((listener, file));
        assert!(!path.exists());
    }

    #[test]
    fn a_dead_socket_is_replaced_and_a_live_one_is_not() {
        let path = folder("stale").join("a.sock");
        let (listener, mut file) = bind(&path, 0o600, 16).unwrap();
        let error = bind(&path, 0o600, 16).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(UnixStream::connect(&path).is_ok(), "the first is not disturbed");
        file.leave();
        drop((listener, file));
        assert!(path.exists());
        let (_listener, _file) = bind(&path, 0o600, 16).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let path = folder("file").join("a.sock");
        fs::write(&path, "precious").unwrap();
        assert_eq!(bind(&path, 0o600, 16).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn the_socket_of_a_successor_is_not_removed() {
        let path = folder("successor").join("a.sock");
        let (_old, file) = bind(&path, 0o600, 16).unwrap();
        fs::remove_file(&path).unwrap();
        let (_new, _file) = bind(&path, 0o600, 16).unwrap();
        drop(file);
        assert!(UnixStream::connect(&path).is_ok());
    }
}
