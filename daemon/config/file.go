package config

import (
	"log/slog"
	"time"

	"coding-proxy/auth"
	"coding-proxy/pool"
	"coding-proxy/proxy"
	"coding-proxy/stats"
	"coding-proxy/web"
)

// Bounds that keep typing errors out, not tuning.
const (
	maxSeconds = 7 * 24 * time.Hour
	maxIdle    = 366 * 24 * time.Hour
	maxWindow  = 31 * 24 * time.Hour
	maxTokens  = 1e15
	maxCount   = 1e6
	maxDays    = 3660
	maxBody    = 4 << 30
	maxHeader  = 16 << 20
	minUSD     = 0.000001
	maxUSD     = 1e9
)

// file is what was read, as far as it must be seen as a whole before it means something.
type file struct {
	strategy   pool.Strategy
	tierReturn pool.TierReturn
	tiers      []*tierDraft
	mapping    []ruleDraft
	adminKey   str
	keys       []*keyDraft
	upstreams  []*keyDraft
	callers    []*callerDraft
	groups     []*groupDraft
	prices     []*priceDraft
	localKey   str
}

// The tables below are the format of the file; a test compares them with the tables of the design.

func rootFields(c *Config, f *file) []field {
	return []field{
		{"server", section(serverFields(&c.Server))},
		{"auth", section(authFields(&c.Auth, f))},
		{"tiers", list(eachTier(f))},
		{"pool", section(poolFields(&c.Pool, f))},
		{"model_mapping", list(eachRule(&f.mapping))},
		{"failover", section(failoverFields(&c.Proxy.Failover))},
		{"timeouts", section(timeoutFields(&c.Proxy.Timeouts))},
		{"limits", section(limitFields(&c.Proxy.Limits))},
		{"answer_probes", boolean(&c.Proxy.AnswerProbes)},
		{"count_tokens", counting(&c.Proxy.CountUpstream)},
		{"mcp", mcpServers(&c.Proxy)},
		{"stats", section(statsFields(&c.Stats))},
		{"metrics", section(metricsFields(&c.Web))},
		{"log", section(logFields(&c.Log))},
		{"oauth", logins(c)},
		{"upstreams", list(eachUpstream(f))},
		{"pricing", list(eachPrice(f))},
	}
}

func serverFields(s *Server) []field {
	return []field{
		{"host", text(&s.Host, hostName)},
		{"port", integer(&s.Port, 0, 65535)},
		{"data_dir", text(&s.DataDir, fileName)},
		{"allowed_hosts", texts(&s.AllowedHosts, hostName)},
		{"shutdown_seconds", seconds(&s.Shutdown)},
		{"cors_origins", texts(&s.CORSOrigins, webOrigin)},
		{"trusted_proxies", addresses(&s.TrustedProxies)},
	}
}

func authFields(o *auth.Options, f *file) []field {
	return []field{
		{"request_keys", list(eachCaller(f))},
		{"groups", list(eachGroup(f))},
		{"local_api_key", keep(&f.localKey)},
		{"admin_key", keep(&f.adminKey)},
		{"protect_pages", boolean(&o.ProtectPages)},
		{"allow_addresses", addresses(&o.AllowAddresses)},
		{"deny_addresses", addresses(&o.DenyAddresses)},
	}
}

func callerFields(c *callerDraft) []field {
	return []field{
		{"code", keep(&c.code)},
		{"api_key", keep(&c.key)},
		{"group", keep(&c.group)},
		{"models", patterns(&c.models)},
		{"expires", expiry(&c.expires)},
		{"requests_per_minute", integer(&c.limits.RequestsPerMinute, 1, maxCount)},
		{"max_in_flight", integer(&c.limits.MaxInFlight, 1, maxCount)},
		{"daily_limit_tokens", integer(&c.limits.DailyTokens, 1, maxTokens)},
		{"monthly_limit_tokens", integer(&c.limits.MonthlyTokens, 1, maxTokens)},
		{"daily_limit_usd", number(&c.limits.DailyUSD, minUSD, maxUSD)},
		{"addresses", someAddresses(&c.addresses)},
	}
}

func groupFields(g *groupDraft) []field {
	return []field{
		{"name", keep(&g.name)},
		{"keys", keepAll(&g.keys)},
		{"tiers", keepAll(&g.tiers)},
	}
}

func poolFields(p *pool.Options, f *file) []field {
	return []field{
		{"keys", list(eachKey(f))},
		{"strategy", choice(&f.strategy, pool.Strategies()...)},
		{"tier_return", choice(&f.tierReturn, pool.TierReturns()...)},
		{"rebalance_threshold", number(&p.RebalanceThreshold, 0, 1)},
		{"rebalance_cooldown_seconds", seconds(&p.RebalanceCooldown)},
		{"session_idle_hours", duration(&p.SessionIdle, time.Hour, 0, maxIdle)},
		{"max_wait_seconds", seconds(&p.MaxWait)},
		{"count", section(countFields(&p.Count))},
	}
}

func countFields(w *pool.Weights) []field {
	return []field{
		{"input", number(&w.Input, 0, 1000)},
		{"output", number(&w.Output, 0, 1000)},
		{"cache_creation", number(&w.CacheCreation, 0, 1000)},
		{"cache_read", number(&w.CacheRead, 0, 1000)},
	}
}

func keyFields(k *keyDraft) []field {
	return append([]field{
		{"id", keep(&k.id)},
		{"tier", keep(&k.tier)},
		{"provider", keep(&k.provider)},
		{"protocol", keep(&k.protocol)},
		{"base_url", keep(&k.baseURL)},
		{"allow_http", boolean(&k.allowHTTP)},
		{"endpoints", endpoints(k)},
		{"credential", keep(&k.credential)},
		{"api_key", keep(&k.apiKey)},
		{"key_header_name", keep(&k.headerName)},
		{"key_prefix", keep(&k.prefix)},
		{"headers", entries(&k.headers)},
		{"models", models(k)},
		{"daily_limit_tokens", integer(&k.rules.DailyLimit, 0, maxTokens)},
		{"monthly_limit_tokens", integer(&k.rules.MonthlyLimit, 0, maxTokens)},
		{"max_concurrent", integer(&k.rules.MaxConcurrent, 0, maxCount)},
		{"enabled", boolean(&k.enabled)},
		{"drop_fields", texts(&k.way.DropFields, notEmpty)},
		{"drop_betas", texts(&k.way.DropBetas, notEmpty)},
	}, signInFields(&k.signIn)...)
}

func upstreamFields(k *keyDraft) []field {
	return []field{
		{"id", keep(&k.id)},
		{"provider", keep(&k.provider)},
		{"base_url", keep(&k.baseURL)},
		{"api_key", keep(&k.apiKey)},
		{"model", keep(&k.model)},
		{"real_model", keep(&k.realModel)},
		{"models", models(k)},
	}
}

func failoverFields(o *proxy.Failover) []field {
	return []field{
		{"status_codes", statusCodes(&o.StatusCodes)},
		{"error_types", texts(&o.ErrorTypes, notEmpty)},
		{"error_message_patterns", texts(&o.MessagePatterns, notEmpty)},
		{"cap_patterns", texts(&o.CapPatterns, notEmpty)},
		{"max_attempts", integer(&o.MaxAttempts, 1, 100)},
		{"max_seconds", seconds(&o.MaxTime)},
		{"hold_first_event_seconds", seconds(&o.HoldFirstEvent)},
	}
}

func timeoutFields(o *proxy.Timeouts) []field {
	// 0 could mean at once or never: neither is wanted.
	some := func(to *time.Duration) reader { return duration(to, time.Second, time.Millisecond, maxSeconds) }
	return []field{
		{"connect_seconds", some(&o.Connect)},
		{"first_byte_seconds", some(&o.FirstByte)},
		{"first_byte_nonstream_seconds", some(&o.FirstByteNonstream)},
		{"idle_seconds", some(&o.Idle)},
	}
}

func limitFields(o *proxy.Limits) []field {
	return []field{
		{"max_body_bytes", integer(&o.MaxBodyBytes, 1, maxBody)},
		{"max_header_bytes", integer(&o.MaxHeaderBytes, 4096, maxHeader)},
		{"max_in_flight", integer(&o.MaxInFlight, 0, maxCount)},
	}
}

func statsFields(o *stats.Options) []field {
	return []field{
		{"journal_days", integer(&o.JournalDays, 1, maxDays)},
		{"usage_days", integer(&o.UsageDays, 1, maxDays)},
	}
}

func metricsFields(o *web.Options) []field {
	return []field{{"key_labels", boolean(&o.KeyLabels)}}
}

func logFields(o *Log) []field {
	return []field{
		{"level", level(&o.Level)},
		{"format", choice(&o.Format, "text", "json")},
		{"file", text(&o.File, optional(fileName))},
	}
}

// counting reads count_tokens.
func counting(upstream *bool) reader {
	return func(d *decoder, v value) {
		if s, ok := d.str(v); ok && d.oneOf(s, []string{"local", "upstream"}) {
			*upstream = s.text == "upstream"
		}
	}
}

func statusCodes(to *[]int) reader {
	return func(d *decoder, v value) {
		*to = []int{}
		d.list(v, func(item value) {
			var code int
			if integer(&code, 400, 599)(d, item); code != 0 {
				*to = append(*to, code)
			}
		})
	}
}

func level(to *slog.Level) reader {
	return func(d *decoder, v value) {
		var name string
		if text(&name, logLevel)(d, v); name != "" {
			*to = toLevel(name)
		}
	}
}
