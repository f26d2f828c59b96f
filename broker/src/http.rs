//! Metrics and health over HTTP: the only door to axum.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use strandline_env::Shutdown;
use strandline_telemetry::MetricsRegistry;
use tokio::net::TcpListener;

use crate::broker::Broker;
use crate::gauges;

/// What the HTTP side knows; it answers before the broker is ready.
#[derive(Debug, Clone)]
pub(crate) struct HttpState {
    metrics: MetricsRegistry,
    broker: Arc<std::sync::OnceLock<Arc<Broker>>>,
    is_ready: Arc<AtomicBool>,
}

impl HttpState {
    pub(crate) fn new(metrics: MetricsRegistry) -> Self {
        Self {
            metrics,
            broker: Arc::default(),
            is_ready: Arc::default(),
        }
    }

    /// The broker serves clients from now on.
    pub(crate) fn set_ready(&self, broker: &Arc<Broker>) {
        let _ = self.broker.set(Arc::clone(broker));
        self.is_ready.store(true, Ordering::Release);
    }

    /// The broker is about to stop.
    pub(crate) fn set_stopping(&self) {
        self.is_ready.store(false, Ordering::Release);
    }
}

/// Serves until shutdown.
pub(crate) async fn serve(listener: TcpListener, state: HttpState, shutdown: Shutdown) {
    let app = Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .with_state(state);
    let served = axum::serve(listener, app)
        .with_graceful_shutdown(async move { shutdown.cancelled().await })
        .await;
    if let Err(e) = served {
        tracing::error!(error = %e, "HTTP server ended");
    }
}

async fn metrics(State(state): State<HttpState>) -> impl IntoResponse {
    if let Some(broker) = state.broker.get() {
        gauges::refresh(broker);
    }
    match state.metrics.encode() {
        Ok(text) => {
            let kind = strandline_telemetry::METRICS_CONTENT_TYPE;
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(e) => {
            tracing::error!(error = %e, "encode metrics");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

async fn readyz(State(state): State<HttpState>) -> impl IntoResponse {
    let broker = state
        .broker
        .get()
        .filter(|_| state.is_ready.load(Ordering::Acquire));
    match broker {
        Some(broker) if broker.log_dirs.is_offline() => (
            StatusCode::SERVICE_UNAVAILABLE,
            "every log directory is offline\n",
        ),
        Some(_) => (StatusCode::OK, "ready\n"),
        None => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
    }
}
