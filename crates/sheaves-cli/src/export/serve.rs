//! The server of `sheaves export --listen`: `GET /metrics`, and nothing else.
//!
//! Any process of the machine can be a client, so one has little: a head of 8 KiB, some seconds,
//! and one request. Clients that come at the same time share an answer.

use alloc::sync::Arc;
use core::convert::Infallible;
use core::time::Duration;
use std::io;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{spawn, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::output::say;
use crate::refusal::Refusal;

/// Clients at the same time. Others wait in the kernel.
const CLIENTS_MAX: usize = 16;
const HEAD_BYTES_MAX: usize = 8 << 10;
/// How long a client may take to send its request.
const HEAD_LIMIT: Duration = Duration::from_secs(2);
/// How long it is served. It waits for at most two scrapes.
const LIMIT: Duration = Duration::from_secs(20);
/// After the kernel refuses a client, for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Where the metrics come from, and the last answer with the time when it was begun.
struct Source<F> {
    scrape: F,
    last: Mutex<Option<(Instant, Answer)>>,
}

/// A status, a type of contents, and these.
type Answer = (StatusCode, &'static str, Bytes);

/// Serves what `scrape` returns, until it is ended by a signal.
pub(super) fn serve<F>(address: &str, scrape: F) -> Result<ExitCode, Refusal>
where
    F: Fn() -> Result<String, Refusal> + Send + Sync + 'static,
{
    let refused = |error| Refusal::unavailable(format!("cannot listen on {address}: {error}"));
    let listener = std::net::TcpListener::bind(address).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    let name = listener.local_addr().map_err(refused)?;
    // One scrape at a time.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(1)
        .build()
        .map_err(refused)?;
    let source = Arc::new(Source { scrape, last: Mutex::new(None) });
    let served: io::Result<Infallible> = runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        say(&format!("http://{name}/metrics"));
        accept(listener, source).await
    });
    served.map_or_else(|error| Err(refused(error)), |never| match never {})
}

async fn accept<F>(listener: TcpListener, source: Arc<Source<F>>) -> io::Result<Infallible>
where
    F: Fn() -> Result<String, Refusal> + Send + Sync + 'static,
{
    let clients = Arc::new(Semaphore::new(CLIENTS_MAX));
    loop {
        let place = Arc::clone(&clients).acquire_owned().await.map_err(io::Error::other)?;
        let Ok((client, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let source = Arc::clone(&source);
        spawn(async move {
            // What goes wrong with the connection is the client's matter.
            let _ = timeout(LIMIT, serve_client(client, source)).await;
            drop(place);
        });
    }
}

async fn serve_client<F>(client: TcpStream, source: Arc<Source<F>>) -> hyper::Result<()>
where
    F: Fn() -> Result<String, Refusal> + Send + Sync + 'static,
{
    let service = service_fn(|request| respond(request, Arc::clone(&source)));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(client), service)
        .await
}

/// Responds to a request, whose body is not read.
async fn respond<F>(
    request: Request<Incoming>,
    source: Arc<Source<F>>,
) -> Result<Response<Full<Bytes>>, Infallible>
where
    F: Fn() -> Result<String, Refusal> + Send + Sync + 'static,
{
    let plain = |status, text: &'static str| (status, TEXT, Bytes::from_static(text.as_bytes()));
    let arrived = Instant::now();
    let (status, kind, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => {
            let scraped = spawn_blocking(move || source.answer(arrived)).await;
            scraped.unwrap_or_else(|_| plain(StatusCode::INTERNAL_SERVER_ERROR, "no answer\n"))
        }
        (&Method::GET, _) => plain(StatusCode::NOT_FOUND, "the metrics are at /metrics\n"),
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n"),
    };
    let mut response = Response::new(Full::new(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
    }
    Ok(response)
}

impl<F: Fn() -> Result<String, Refusal>> Source<F> {
    /// Takes the metrics, unless that was begun since a request arrived.
    fn answer(&self, arrived: Instant) -> Answer {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((begun, answer)) = &*last
            && *begun >= arrived
        {
            return answer.clone();
        }
        let begun = Instant::now();
        let answer = match (self.scrape)() {
            Ok(text) => (StatusCode::OK, METRICS, text.into()),
            Err(refusal) => {
                let text = format!("{}\n", refusal.line);
                (StatusCode::SERVICE_UNAVAILABLE, TEXT, text.into())
            }
        };
        *last = Some((begun, answer.clone()));
        answer
    }
}
