//! Whom we trust, and what we show of ourselves.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use super::fault::Fault;
use crate::{Error, stores::redis::url::Tls};

/// Read once, when the store is opened.
pub(super) fn config(tls: &Tls) -> Result<Arc<ClientConfig>, Error> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = &tls.ca {
        for certificate in certificates(path)? {
            roots.add(certificate).map_err(|error| unusable(path).because(error))?;
        }
    } else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if roots.is_empty() {
        return Err(match &tls.ca {
            Some(path) => unusable(path),
            None => Error::invalid(
                "the system has no certificate authorities that could vouch for the server",
                "install ca-certificates, or add ?ca=/path/to/ca.pem to the store's URL",
            ),
        });
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("this provider has the default versions")
        .with_root_certificates(roots);
    let config = match (&tls.certificate, &tls.key) {
        (Some(path), Some(key_path)) => {
            let key = PrivateKeyDer::from_pem_file(key_path).map_err(|error| unusable(key_path).because(error))?;
            config.with_client_auth_cert(certificates(path)?, key).map_err(|error| unusable(path).because(error))?
        }
        _ => config.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(|error| unusable(path).because(error))
}

fn unusable(path: &Path) -> Error {
    Error::invalid(format!("{} cannot be used for TLS", path.display()), "ca, cert and key name files in PEM form")
}

/// Why the two did not come to terms.
pub(super) fn fault(error: &rustls::Error) -> Fault {
    match error {
        rustls::Error::InvalidCertificate(reason) => Fault::refused(
            format!("the server's certificate is not to be trusted: {reason}"),
            "if its authority is your own, add ?ca=/path/to/ca.pem to the store's URL; the host must be one that the \
             certificate names",
        ),
        rustls::Error::InvalidMessage(_) => {
            Fault::refused("the server does not speak TLS", "write redis:// if it is not meant to")
        }
        rustls::Error::AlertReceived(alert) => Fault::refused(
            format!("the server refused TLS with us: {alert:?}"),
            "it may want a certificate of ours: add ?cert=/path/to/cert.pem&key=/path/to/key.pem to the store's URL",
        ),
        error => Fault::refused(format!("TLS failed: {error}"), "see the server's log and its `tls-` settings"),
    }
}
