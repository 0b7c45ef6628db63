//! hyper's HTTP/1 server. Answers a request that it took with "taken " and what it was told, as JSON.
use std::{convert::Infallible, env, net::Ipv4Addr};

use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
    Request, Response,
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// A JSON string; each byte is a character, as in Latin-1.
fn json(text: &[u8]) -> String {
    let inner: String = text
        .iter()
        .map(|&byte| match byte {
            b'"' | b'\\' => format!("\\{}", byte as char),
            0x20..=0x7e => (byte as char).to_string(),
            _ => format!("\\u{byte:04x}"),
        })
        .collect();
    format!("\"{inner}\"")
}

/// What an app makes of a path: `%xx` decoded, anything else left alone.
fn decoded(path: &str) -> Vec<u8> {
    let bytes = path.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let hex = |i: usize| bytes.get(i).and_then(|&byte| (byte as char).to_digit(16));
        match (bytes[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let headers: Vec<String> = request
        .headers()
        .iter()
        .map(|(name, value)| format!("[{},{}]", json(name.as_str().as_bytes()), json(value.as_bytes())))
        .collect();
    let told = format!(
        "taken {{\"method\":{},\"target\":{},\"path\":{},\"headers\":[{}]}}\n",
        json(request.method().as_str().as_bytes()),
        json(request.uri().to_string().as_bytes()),
        json(&decoded(request.uri().path())),
        headers.join(",")
    );
    Ok(Response::new(Full::from(told)))
}

fn main() -> std::io::Result<()> {
    let port = env::args().nth(1).and_then(|text| text.parse().ok()).expect("a port");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(async move {
                // A client that breaks off or sends no HTTP is no fault of the server's.
                let _ = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service_fn(answer))
                    .await;
            });
        }
    })
}
