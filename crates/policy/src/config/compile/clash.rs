//! Sockets that want the same address.

use std::net::{IpAddr, SocketAddr};

use crate::config::settings::ListenOn;

/// Whether the second of two listeners could not have its socket.
pub fn clash(one: &ListenOn, other: &ListenOn) -> bool {
    match (one, other) {
        (ListenOn::Ip(one), ListenOn::Ip(other)) => ports_clash(*one, *other),
        (ListenOn::Unix { path: one, .. }, ListenOn::Unix { path: other, .. }) => one == other,
        (ListenOn::Systemd(one), ListenOn::Systemd(other)) => one == other,
        _ => false,
    }
}

/// Whether the kernel would refuse the second of two ports: the same number, and the same address or one that stands for
/// all. `[::]` stands for both families, as our sockets are dual stack.
fn ports_clash(one: SocketAddr, other: SocketAddr) -> bool {
    let all = |address: IpAddr, beside: IpAddr| match address {
        IpAddr::V6(v6) => v6.is_unspecified(),
        IpAddr::V4(v4) => v4.is_unspecified() && beside.is_ipv4(),
    };
    // port 0 is another port each time
    one.port() == other.port()
        && one.port() != 0
        && (one.ip() == other.ip() || all(one.ip(), other.ip()) || all(other.ip(), one.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_clash_as_the_kernel_says() {
        let clashes = |one: &str, other: &str| clash(&one.parse().unwrap(), &other.parse().unwrap());
        assert!(clashes("[::]:80", "127.0.0.1:80"));
        assert!(clashes("10.0.0.1:80", "0.0.0.0:80"));
        assert!(clashes("10.0.0.1:80", "10.0.0.1:80"));
        assert!(!clashes("0.0.0.0:80", "[::1]:80"));
        assert!(!clashes("10.0.0.1:80", "10.0.0.2:80"));
        assert!(!clashes("10.0.0.1:80", "10.0.0.1:81"));
        assert!(!clashes("127.0.0.1:0", "127.0.0.1:0"));
        assert!(clashes("unix:/run/a.sock", "unix:/run/a.sock"));
        assert!(clashes("systemd:web", "systemd:web"));
        assert!(!clashes("systemd:web", "systemd:other"));
    }
}
