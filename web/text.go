package web

import (
	"fmt"
	"html/template"
	"maps"
	"strings"
)

// phrase is one text in both languages.
type phrase struct{ en, zh string }

func (p phrase) in(l lang) string {
	if l == chinese {
		return p.zh
	}
	return p.en
}

// phrases are the texts of the pages by key. "%" stands for what is filled in.
func phrases() map[string]phrase {
	all := poolPhrases()
	maps.Copy(all, tablePhrases())
	return all
}

func tablePhrases() map[string]phrase {
	return map[string]phrase{
		"product":     {"coding-proxy", "coding-proxy"},
		"skip":        {"Skip to the figures", "跳到数据"},
		"nav.pages":   {"Statistics", "统计"},
		"nav.lang":    {"Language", "语言"},
		"nav.window":  {"Time window", "时间范围"},
		"page.stats":  {"Usage by model", "按模型统计"},
		"page.pool":   {"Key pool", "密钥池"},
		"page.usage":  {"Usage by key", "按密钥统计"},
		"page.caller": {"Usage by caller", "按调用方统计"},
		"page.signin": {"Sign in", "登录"},

		"intro.stats":  {"All requests over all keys, by the model they were routed as.", "所有密钥上的全部请求，按路由后的模型汇总。"},
		"intro.pool":   {"The chain of tiers, the state of each key, and what is left of its limits.", "层级链、每个密钥的状态以及剩余额度。"},
		"intro.usage":  {"Every key over five time windows. Keys that are gone stay listed.", "每个密钥在五个时间范围内的用量。已移除的密钥仍会保留。"},
		"intro.caller": {"Every request key over five time windows. Callers that are gone stay listed.", "每个请求密钥在五个时间范围内的用量。已移除的调用方仍会保留。"},

		"intro.signin": {"These pages need the admin key of this proxy.", "查看这些页面需要此代理的管理密钥。"},

		"signin.key":     {"Admin key", "管理密钥"},
		"signin.go":      {"Sign in", "登录"},
		"signin.hint":    {"It is what auth.admin_key in the configuration says. The session lasts 12 hours, or until the proxy restarts.", "即配置中 auth.admin_key 的值。会话持续 12 小时，代理重启后失效。"},
		"signin.wrong":   {"That is not the admin key.", "管理密钥不正确。"},
		"signin.toomany": {"Too many wrong keys from this address. Try again in a minute.", "此地址的错误尝试过多，请在一分钟后重试。"},
		"signout":        {"Sign out", "退出登录"},

		"colon":      {": ", "："},
		"asof":       {"As of %.", "数据时间：%。"},
		"renews":     {"Updates by itself every 5 seconds.", "每 5 秒自动更新。"},
		"json":       {"The same as JSON:", "同样数据的 JSON："},
		"lost":       {"The proxy cannot be reached. Has it been stopped? Last update at %.", "无法连接到代理，它可能已停止。上次更新：%。"},
		"disk.waits": {"The disk refuses the journal. Requests go on; % bytes of its lines wait in memory.", "磁盘无法写入日志。请求照常处理，有 % 字节的记录暂存在内存中。"},
		"disk.lost":  {"Journal lines that are lost since the start, because the disk refused: %.", "启动以来因磁盘无法写入而丢失的日志记录：%。"},
		"day":        {"d", "天"},
		"from.to":    {"to", "至"},

		"window.today":      {"Today", "今天"},
		"window.week":       {"This week", "本周"},
		"window.month":      {"This month", "本月"},
		"window.last_week":  {"Last week", "上周"},
		"window.last_month": {"Last month", "上月"},

		"figure.requests":              {"Requests", "请求数"},
		"figure.errors":                {"Errors", "错误"},
		"figure.failovers":             {"Failovers", "故障切换"},
		"figure.input_tokens":          {"Input tokens", "输入词元"},
		"figure.output_tokens":         {"Output tokens", "输出词元"},
		"figure.cache_creation_tokens": {"Cache writes", "缓存写入"},
		"figure.cache_read_tokens":     {"Cache reads", "缓存读取"},
		"figure.reasoning_tokens":      {"Reasoning tokens", "推理词元"},
		"figure.estimated":             {"Estimated requests", "估算的请求"},
		"figure.cost_usd":              {"Cost (USD)", "费用（美元）"},
		"figure.cache_share":           {"Share of cache reads", "缓存读取占比"},
		"figure.average":               {"Average time", "平均耗时"},
		"figure.unpriced":              {"+ % without a price", "另有 % 次无价格"},
		"figure.unpriced.hint":         {"Requests of models without a known price, which this cost lacks: %", "此费用不含价格未知的模型的请求：% 次"},

		"table.models":  {"By model, the most tokens first", "按模型，词元最多的在前"},
		"table.days":    {"By day, the newest first", "按日期，最近的在前"},
		"day.tokens":    {"%: % tokens", "%：% 词元"},
		"table.usage":   {"Usage of each key", "各密钥的用量"},
		"table.callers": {"Usage of each caller", "各调用方的用量"},
		"table.keys":    {"Keys of the tier %", "层级 % 的密钥"},
		"total":         {"Total", "合计"},
		"empty.stats":   {"No requests in this time window yet.", "此时间范围内还没有请求。"},
		"empty.pool":    {"The pool has no keys.", "密钥池中没有密钥。"},
		"empty.usage":   {"There are no keys yet.", "还没有密钥。"},
		"empty.caller":  {"No caller yet: no request key is configured and nobody has asked.", "还没有调用方：未配置请求密钥，也没有收到请求。"},

		"col.model":    {"Model", "模型"},
		"col.day":      {"Day", "日期"},
		"col.tokens":   {"All tokens", "全部词元"},
		"col.key":      {"Key", "密钥"},
		"col.caller":   {"Caller", "调用方"},
		"col.window":   {"Window", "时间范围"},
		"col.state":    {"State", "状态"},
		"col.today":    {"Today", "今天"},
		"col.month":    {"This month", "本月"},
		"col.flight":   {"In flight", "进行中"},
		"col.sessions": {"Sessions", "会话"},
		"col.streak":   {"Failures in a row", "连续失败"},
		"col.lastused": {"Last used", "上次使用"},
		"col.runsout":  {"Runs out", "预计用尽"},

		"limits":        {"Limits", "限额"},
		"limits.hint":   {"Checked before a request is served; what is in flight may go over. Counted by the local calendar.", "在处理请求之前检查；进行中的请求可能超出限额。按本地日历计算。"},
		"table.limits":  {"What each caller may use, and how it stands", "各调用方的限额与当前状态"},
		"col.costtoday": {"Cost today (USD)", "今日费用（美元）"},
		"col.rate":      {"Requests per minute", "每分钟请求"},
		"col.expires":   {"Expires", "到期"},
		"col.where":     {"From", "来源"},
		"rate.left":     {"%, % at once now", "%，现可连续 %"},
		"anywhere":      {"any address", "任何地址"},
		"only.models":   {"models", "模型"},
		"expired":       {"expired", "已过期"},
		"may":           {"may ask", "可请求"},
	}
}

func poolPhrases() map[string]phrase {
	return map[string]phrase{
		"pool.state":     {"Pool", "密钥池"},
		"pool.today":     {"Today", "今天"},
		"pool.month":     {"This month", "本月"},
		"pool.used":      {"% used", "已用 %"},
		"pool.of":        {"% of %", "% / %"},
		"pool.left":      {"% left", "剩余 %"},
		"pool.nolimit":   {"no limit", "无限额"},
		"pool.nextfree":  {"Next key free at %", "下一个密钥可用时间：%"},
		"pool.noone":     {"No key is free now, and it is not known when one will be.", "目前没有可用密钥，且未知何时恢复。"},
		"chain":          {"Chain of tiers", "层级链"},
		"chain.hint":     {"Requests try the tiers in this order; one that refuses or fails passes them on.", "请求按此顺序尝试各层级；拒绝或失败的层级会转给下一层。"},
		"chain.requests": {"Requests", "请求"},
		"chain.now":      {"New requests go here", "新请求发往此处"},
		"chain.ready":    {"% of % keys ready", "% / % 个密钥就绪"},
		"breaker":        {"Breaker", "熔断器"},
		"guard":          {"Quota guard", "配额守卫"},
		"none":           {"none", "无"},
		"until":          {"until %", "至 %"},
		"failures":       {"Failures", "失败"},
		"successes":      {"Successes", "成功"},
		"recovery":       {"Recovery (s)", "恢复时间（秒）"},
		"window":         {"Window", "窗口"},
		"week":           {"Week", "一周"},
		"caps.only":      {"only caps count", "仅按上限响应判断"},
		"gone":           {"no longer configured", "已不在配置中"},
		"limit.daily":    {"Daily limit", "每日限额"},
		"limit.monthly":  {"Monthly limit", "每月限额"},
		"tier":           {"Tier", "层级"},
		"provider":       {"Provider", "提供商"},
		"group":          {"Group", "分组"},
		"percent.of":     {"%: % used", "%：已用 %"},
		"family":         {"and all others of the family", "及同系列模型"},
		"told":           {"Limits, as the provider told them:", "提供商告知的限额："},
		"told.used":      {"%% used", "已用 %%"},
		"told.of":        {"% of % left", "剩余 % / %"},
		"told.limit":     {"limit %", "限额 %"},
		"told.reset":     {"reset at %", "重置时间 %"},
		"told.at":        {"told at %, % ago", "告知时间 %，距今 %"},
	}
}

// words are what the API says in closed words, by "kind:word".
func words() map[string]phrase {
	return map[string]phrase{
		"limit:healthy": {"healthy", "充足"}, "limit:tight": {"tight", "紧张"}, "limit:exhausted": {"exhausted", "耗尽"},

		"tier:open": {"open", "开放"}, "tier:refusing": {"refusing", "拒绝"},
		"breaker:closed": {"closed", "关闭"}, "breaker:open": {"open", "断开"}, "breaker:half_open": {"half-open", "半开"},
		"guard:within": {"within", "限额内"}, "guard:exceeded": {"exceeded", "已超出"},
		"by:budget": {"by budget", "因预算"}, "by:cap": {"by a cap", "因上限响应"},

		"key:ready": {"ready", "就绪"}, "key:cooling": {"cooling", "冷却中"}, "key:day_limit": {"day limit", "日限额已满"},
		"key:month_limit": {"month limit", "月限额已满"}, "key:busy": {"busy", "繁忙"}, "key:disabled": {"disabled", "已停用"},
		"key:parked": {"parked", "已搁置"}, "key:breaker_open": {"breaker open", "熔断器断开"}, "key:quota_guard": {"quota guard", "配额守卫"},
		"key:tier_return": {"waits for its tier", "等待返回层级"}, "key:scope": {"out of scope", "不在范围内"}, "key:dialect": {"speaks another dialect", "不支持该协议"}, "key:pinned": {"another account", "属于其他账户"}, "key:model": {"model not served", "不提供该模型"},

		"reason:rate_limit": {"rate limit", "速率限制"}, "reason:overload": {"overloaded", "提供商过载"}, "reason:fault": {"provider fault", "提供商故障"},
		"reason:credential": {"credential refused", "凭据被拒"}, "reason:cap": {"cap reached", "已达上限"}, "reason:unknown_model": {"unknown model", "未知模型"},
		"reason:ok": {"ok", "正常"}, "reason:cancelled": {"cancelled", "已取消"}, "reason:passthrough": {"the client’s own fault", "客户端自身错误"},
		"reason:stale": {"stale connection", "连接已失效"}, "reason:unknown": {"unknown", "未知"},
		"reason:breaker_open": {"breaker open", "熔断器断开"}, "reason:breaker_half_open": {"breaker half-open, its probe is under way", "熔断器半开，正在试探"},
		"reason:quota_guard": {"quota guard", "配额守卫"},

		"reason:switched off in the configuration": {"switched off in the configuration", "已在配置中停用"},
		"reason:switched off by the operator":      {"switched off by the operator", "已被管理员停用"},
		"reason:api_key is empty":                  {"api_key is empty", "api_key 为空"},
		"reason:environment variable % is not set": {"environment variable % is not set", "环境变量 % 未设置"},
		"reason:environment variable % is empty":   {"environment variable % is empty", "环境变量 % 为空"},

		"caller:caller_rate": {"over its rate", "超出速率"}, "caller:caller_in_flight": {"as many as it may have", "并发已满"},
		"caller:caller_day_limit": {"day used up", "日限额已满"}, "caller:caller_month_limit": {"month used up", "月限额已满"},
		"caller:caller_cost_limit": {"day’s cost used up", "日费用已满"},

		"told:allowed": {"allowed", "允许"}, "told:allowed_warning": {"nearly used up", "即将用尽"}, "told:rejected": {"used up", "已用尽"},

		"window:5h": {"5 hours", "5 小时"}, "window:7d": {"7 days", "7 天"}, "window:7d_%": {"7 days, %", "7 天（%）"},
		"window:unified": {"subscription", "订阅"}, "window:overage": {"overage", "超额用量"},
		"window:codex-primary": {"Codex, first window", "Codex 第一窗口"}, "window:codex-secondary": {"Codex, second window", "Codex 第二窗口"},
		"window:requests": {"requests", "请求"}, "window:tokens": {"tokens", "词元"}, "window:rate": {"rate", "速率"}, "window:quota": {"quota", "配额"},
		"window:input-tokens": {"input tokens", "输入词元"}, "window:output-tokens": {"output tokens", "输出词元"},
		"window:priority-input-tokens": {"input tokens, priority", "输入词元（优先）"}, "window:priority-output-tokens": {"output tokens, priority", "输出词元（优先）"},
		"window:requests-per-day": {"requests per day", "每日请求"}, "window:requests-per-minute": {"requests per minute", "每分钟请求"},
		"window:tokens-per-day": {"tokens per day", "每日词元"}, "window:tokens-per-minute": {"tokens per minute", "每分钟词元"},
		"window:input-tokens-per-day": {"input tokens per day", "每日输入词元"}, "window:input-tokens-per-minute": {"input tokens per minute", "每分钟输入词元"},

		"name:(anonymous)": {"(no request key)", "（无请求密钥）"}, "name:(other)": {"(other)", "（其他）"}, "name:(none)": {"(no key)", "（无密钥）"},
	}
}

// translator has the texts of one language.
type translator struct {
	lang    lang
	phrases map[string]phrase
	words   map[string]phrase
}

func newTranslator(l lang) *translator { return &translator{l, phrases(), words()} }

// text returns a phrase, with what is filled in at each "%" in turn. A key without a phrase is a fault of the page.
func (t *translator) text(key string, with ...string) (string, error) {
	p, ok := t.phrases[key]
	if !ok {
		return "", fmt.Errorf("no text for %q", key)
	}
	return fill(p.in(t.lang), with), nil
}

// html is text with markup filled in.
func (t *translator) html(key string, with ...template.HTML) (template.HTML, error) {
	p, ok := t.phrases[key]
	if !ok {
		return "", fmt.Errorf("no text for %q", key)
	}
	parts := make([]string, len(with))
	for i, w := range with {
		parts[i] = string(w)
	}
	return template.HTML(fill(template.HTMLEscapeString(p.in(t.lang)), parts)), nil
}

func fill(text string, with []string) string {
	parts := strings.SplitN(text, "%", len(with)+1)
	var b strings.Builder
	for i, part := range parts {
		if i > 0 {
			b.WriteString(with[i-1])
		}
		b.WriteString(part)
	}
	return b.String()
}

// word returns a word of the API; what is none, as an operator's own text, stays.
func (t *translator) word(kind, word string) string {
	if p, ok := t.words[kind+":"+word]; ok {
		return p.in(t.lang)
	}
	for key, p := range t.words {
		before, after, open := strings.Cut(strings.TrimPrefix(key, kind+":"), "%")
		if !open || !strings.HasPrefix(key, kind+":") || len(word) < len(before)+len(after) {
			continue
		}
		if strings.HasPrefix(word, before) && strings.HasSuffix(word, after) {
			return fill(p.in(t.lang), []string{word[len(before) : len(word)-len(after)]})
		}
	}
	return word
}

// tone is how good a state is: good, warn, bad or idle. It only colours what a word says.
func tone(kind, word string) string {
	switch kind + ":" + word {
	case "limit:healthy", "tier:open", "breaker:closed", "guard:within", "key:ready", "told:allowed":
		return "good"
	case "limit:tight", "breaker:half_open", "key:cooling", "key:busy", "told:allowed_warning", "caller:caller_rate", "caller:caller_in_flight":
		return "warn"
	case "limit:exhausted", "tier:refusing", "breaker:open", "guard:exceeded", "key:day_limit", "key:month_limit", "told:rejected",
		"caller:caller_day_limit", "caller:caller_month_limit", "caller:caller_cost_limit":
		return "bad"
	}
	return "idle"
}
