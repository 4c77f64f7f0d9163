package proxy

import (
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Ways are the transports to providers, one pair for each outbound proxy that keys name.
type Ways struct {
	timeouts Timeouts
	m        sync.Map // of string, as upstream.Options.Proxy has it, to *way
}

// way is how connections are made.
type way struct{ warm, fresh *http.Transport } // fresh makes a new one for each request

// NewWays returns ways with the connect timeout of t.
func NewWays(t Timeouts) *Ways { return &Ways{timeouts: t} }

// Via is the transport through an outbound proxy: a URL, "direct", or "" for what the environment says.
func (x *Ways) Via(outbound string) http.RoundTripper { return x.via(outbound).warm }

func (x *Ways) via(outbound string) *way {
	if w, ok := x.m.Load(outbound); ok {
		return w.(*way)
	}
	w := &way{warm: newTransport(x.timeouts, outbound), fresh: newTransport(x.timeouts, outbound)}
	w.fresh.DisableKeepAlives = true
	got, _ := x.m.LoadOrStore(outbound, w)
	return got.(*way)
}

// CloseIdle closes connections that nobody uses.
func (x *Ways) CloseIdle() {
	x.m.Range(func(_, w any) bool {
		w.(*way).warm.CloseIdleConnections()
		w.(*way).fresh.CloseIdleConnections()
		return true
	})
}

// transports are shared by all requests and settings for which they are right.
type transports struct {
	*Ways
	users   atomic.Int64 // requests that may use them
	retired atomic.Bool  // no further request will
}

func newTransports(t Timeouts) *transports { return &transports{Ways: NewWays(t)} }

// leave ends a request's use. The last one of retired transports closes what they hold.
func (t *transports) leave() {
	if t.users.Add(-1) == 0 && t.retired.Load() {
		t.CloseIdle()
	}
}

func (t *transports) retire() {
	t.retired.Store(true)
	t.CloseIdle()
}

// readBuffer is how much of an answer one read(2) can bring. Of a stream at full speed the default of 4 KiB holds some
// 20 events; four times as much costs a quarter fewer system calls, and memory that a slow stream can bear.
const readBuffer = 32 << 10

// direct is the word for no outbound proxy, whatever the environment says.
const direct = "direct"

// newTransport is tuned for few hosts, many streams and laptops that sleep: HTTP/2 pings find dead connections.
func newTransport(t Timeouts, outbound string) *http.Transport {
	x := &http.Transport{
		Proxy:               http.ProxyFromEnvironment, // never for loopback
		DialContext:         dialer(&net.Dialer{Timeout: t.Connect, KeepAlive: 15 * time.Second}),
		TLSHandshakeTimeout: t.Connect,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
		DisableCompression:  true,
		ReadBufferSize:      readBuffer,
		MaxIdleConnsPerHost: 4096,
		IdleConnTimeout:     90 * time.Second,
	}
	switch outbound {
	case "":
	case direct:
		x.Proxy = nil
	default:
		u, err := url.Parse(outbound)
		x.Proxy = func(*http.Request) (*url.URL, error) { return u, err } // an error is a network fault, never a direct connection
	}
	return x
}

// Transport is Via of the ways in use, for calls beside the requests.
func (p *Proxy) Transport(outbound string) http.RoundTripper { return p.settings().Via(outbound) }

// CloseIdle closes connections that nobody uses.
func (p *Proxy) CloseIdle() { p.settings().CloseIdle() }
