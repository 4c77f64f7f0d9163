package daemon

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"coding-proxy/proxy/demo"
)

// forwarder is an HTTP proxy that remembers what it was asked for.
type forwarder struct {
	mu   sync.Mutex
	said []string // authority and Proxy-Authorization of each request
}

func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.said = append(f.said, r.Host+" "+r.Header.Get("Proxy-Authorization"))
	f.mu.Unlock()
	body, _ := io.ReadAll(r.Body) // a server closes what is not read yet when it answers
	r.Body = io.NopCloser(bytes.NewReader(body))
	(&httputil.ReverseProxy{Rewrite: func(q *httputil.ProxyRequest) { q.Out.URL = q.In.URL }, FlushInterval: -1}).ServeHTTP(w, r)
}

func (f *forwarder) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.said...)
}

// socks starts a SOCKS5 proxy (RFC 1928, no authentication) and returns its address; each connection's target goes to seen.
func socks(t *testing.T, seen func(target string)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() { l.Close(); running.Wait() })
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { relaySocks(c, seen) })
		}
	})
	return l.Addr().String()
}

func relaySocks(c net.Conn, seen func(string)) {
	defer c.Close()
	head := make([]byte, 2)
	if _, err := io.ReadFull(c, head); err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c, int64(head[1])) // the methods
	_, _ = c.Write([]byte{5, 0})
	request := make([]byte, 10) // version, connect, reserved, IPv4, address, port
	if _, err := io.ReadFull(c, request); err != nil || request[3] != 1 {
		return
	}
	target := net.JoinHostPort(net.IP(request[4:8]).String(), strconv.Itoa(int(binary.BigEndian.Uint16(request[8:]))))
	seen(target)
	up, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer up.Close()
	_, _ = c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	go func() {
		_, _ = io.Copy(up, c)
		_ = up.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(c, up)
}

// A key's own outbound proxy is gone through by its requests and its sign-in, and by nobody else's.
func TestOutboundProxy(t *testing.T) {
	t.Parallel()
	t.Run("http, with a password", func(t *testing.T) {
		t.Parallel()
		f := &forwarder{}
		at := strings.TrimPrefix(listen(t, f), "http://")
		_, url := strict(t, "one", chat)
		_, otherURL := strict(t, "two", chat)
		i := start(t, turns(protocolKey(k1, chat, url, fmt.Sprintf(`"proxy_url":"http://me:word-of-the-tests@%s"`, at)), protocolKey(k2, chat, otherURL)))
		served := map[string]int{}
		for _, stream := range []bool{false, true, false, true} {
			r := i.say(chat, "gpt-5.5", stream)
			if served[i.servedBy(r)]++; r.status != 200 {
				t.Errorf("status %d: %s", r.status, r.body)
			}
		}
		want := strings.TrimPrefix(url, "http://") + " Basic " + base64.StdEncoding.EncodeToString([]byte("me:word-of-the-tests"))
		asked := f.asked()
		if served[k1] != 2 || served[k2] != 2 || len(asked) != 2 || asked[0] != want || asked[1] != want {
			t.Errorf("served %v, the proxy was asked for %q", served, asked)
		}
		if strings.Contains(i.log.String(), "word-of-the-tests") {
			t.Error("the log has the password")
		}
	})
	t.Run("socks5", func(t *testing.T) {
		t.Parallel()
		targets := make(chan string, 9)
		at := socks(t, func(target string) { targets <- target })
		_, url := strict(t, "one", chat)
		i := start(t, poolOf(protocolKey(k1, chat, url, fmt.Sprintf(`"proxy_url":"socks5://%s"`, at))))
		if r := i.say(claude, "gpt-5.5", true); r.status != 200 {
			t.Errorf("status %d: %s", r.status, r.body)
		}
		if target := <-targets; target != strings.TrimPrefix(url, "http://") {
			t.Errorf("it was asked for %s", target)
		}
	})
	t.Run("the sign-in, too", func(t *testing.T) {
		t.Parallel()
		f := &forwarder{}
		at := listen(t, f)
		c, hubURL := hub(t, demo.CopilotOptions{})
		g := startGoogle(t, demo.IdentityOptions{})
		i := start(t, turns(copilotKey(k1, hubURL, fmt.Sprintf(`"proxy_url":%q`, at)), antigravityKey(k2, g, fmt.Sprintf(`"proxy_url":%q`, at))))
		for range 2 {
			if r := i.say(gemini, "gpt-4.1", false); r.status != 200 {
				t.Errorf("status %d: %s", r.status, r.body)
			}
		}
		through := map[string]int{}
		for _, line := range f.asked() {
			through[strings.TrimSpace(line)]++
		}
		host := func(s string) string { u, _ := url.Parse(s); return u.Host }
		if n := len(c.Arrived()); through[host(hubURL)] != n || n < 2 || through[host(g.ids)] != 1 || through[host(g.url)] < 2 {
			t.Errorf("through the proxy went %v; %d came to Copilot", through, n)
		}
	})
	t.Run("one that is not there", func(t *testing.T) {
		t.Parallel()
		gone, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		gone.Close()
		p, url := strict(t, "one", chat)
		_, otherURL := strict(t, "two", chat)
		for _, scheme := range []string{"http", "https", "socks5"} {
			i := start(t, `"pool":{"strategy":"fill-first","max_wait_seconds":0,"keys":[`+protocolKey(k1, chat, url, fmt.Sprintf(`"proxy_url":"%s://%s"`, scheme, gone.Addr()))+","+protocolKey(k2, chat, otherURL)+`]}`)
			r := i.say(chat, "gpt-5.5", false)
			rec := i.record(r.trace())
			if r.status != 200 || i.servedBy(r) != k2 || rec.Attempts[0].Outcome != "fault" || rec.Attempts[0].Reason != "no_connection" {
				t.Errorf("%s: status %d by %s: %+v", scheme, r.status, i.servedBy(r), rec.Attempts)
			}
		}
		if n := len(p.Requests()); n != 0 {
			t.Errorf("%d requests went directly", n)
		}
	})
}
