//! The floor under the cost of an answer: serves the files of a directory over TLS, `/NAME` for each.
//!
//! `floor hyper DIRECTORY` serves through this room's connection layer, `floor actix DIRECTORY` through actix-web's own
//! server. Both put their certificate into `DIRECTORY/floor.crt` and print their address and process id.
//! `trireme-bench floor` loads it; build both in release mode. See `docs/adr/0001-http-connections.md`.

use std::{
    collections::HashMap, convert::Infallible, error::Error, fs, net::SocketAddr, path::Path, sync::Arc, time::Duration,
};

use actix_service::{IntoServiceFactory, ServiceFactory, map_config};
use actix_web::{
    App, HttpResponse, HttpServer,
    dev::AppConfig,
    http::header::ContentType,
    web,
    web::{Bytes, Data},
};
use futures_util::stream;
use trireme_http::server::{
    AppHandler, ConnectionLimits, ServerConfig, ServerLifecycle, ServerTls, TlsChoice, TrustedCas, start, tls_from_pem,
};

const WORKERS: usize = 2;
/// Longer files are sent in pieces of this size, as lists are.
const CHUNK_BYTES: usize = 64 * 1024;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;
type Files = Arc<HashMap<String, Bytes>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ["hyper" | "actix", directory] = arguments.as_slice() else {
        return Err("usage: floor hyper DIRECTORY | floor actix DIRECTORY".into());
    };
    let directory = Path::new(directory);
    let files = read(directory)?;
    let tls = tls(directory)?;
    match arguments.first() {
        Some(&"hyper") => serve_with_hyper(tls, files),
        _ => serve_with_actix(tls, files),
    }
}

fn read(directory: &Path) -> Outcome<Files> {
    let mut files = HashMap::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        files.insert(
            entry.file_name().to_string_lossy().into_owned(),
            fs::read(entry.path())?.into(),
        );
    }
    Ok(Arc::new(files))
}

fn tls(directory: &Path) -> Outcome<ServerTls> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let certificate = made.cert.pem();
    fs::write(directory.join("floor.crt"), &certificate)?;
    let key = made.signing_key.serialize_pem();
    Ok(tls_from_pem::<&[u8]>(
        certificate.as_bytes(),
        key.as_bytes(),
        TrustedCas::default(),
        &TlsChoice::default(),
    )?)
}

fn announce(address: SocketAddr) {
    println!("{address} {}", std::process::id());
}

async fn serve(name: web::Path<String>, files: Data<HashMap<String, Bytes>>) -> HttpResponse {
    let Some(bytes) = files.get(name.as_str()).cloned() else {
        return HttpResponse::NotFound().finish();
    };
    let mut response = HttpResponse::Ok();
    response.insert_header(ContentType::json());
    if bytes.len() <= CHUNK_BYTES {
        return response.body(bytes);
    }
    let pieces = (0..bytes.len()).step_by(CHUNK_BYTES);
    let pieces = pieces.map(move |begin| Ok::<_, Infallible>(bytes.slice(begin..bytes.len().min(begin + CHUNK_BYTES))));
    response.streaming(stream::iter(pieces))
}

fn serve_with_hyper(tls: ServerTls, files: Files) -> Outcome<()> {
    let config = ServerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        workers: WORKERS,
        tls: Arc::new(tls),
        limits: ConnectionLimits::default(),
        watch_grace: Duration::ZERO,
    };
    let running = start(&config, ServerLifecycle::new(), move || {
        let files = Data::from(files.clone());
        async move {
            let app = App::new().app_data(files).route("/{name}", web::get().to(serve));
            let factory = map_config(app.into_factory(), |()| AppConfig::default());
            AppHandler(factory.new_service(()).await.expect("the application is in order"))
        }
    })?;
    announce(running.local_addr());
    loop {
        std::thread::park();
    }
}

fn serve_with_actix(tls: ServerTls, files: Files) -> Outcome<()> {
    actix_rt::System::new().block_on(async {
        let app = move || {
            let files = Data::from(files.clone());
            App::new().app_data(files).route("/{name}", web::get().to(serve))
        };
        let server = HttpServer::new(app).workers(WORKERS).tcp_nodelay(true);
        let server = server.bind_rustls_0_23(("127.0.0.1", 0), rustls::ServerConfig::clone(tls.config()))?;
        if let Some(address) = server.addrs().first() {
            announce(*address);
        }
        Ok(server.run().await?)
    })
}
