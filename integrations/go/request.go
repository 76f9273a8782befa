package developeroverview

import (
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"regexp"
	"strings"
)

// What a client sends about a request, and what it gets. Path, method and address only describe a request: they are cut or left out.

const (
	maxKey       = 4096
	maxHeader    = 2 * maxKey
	maxPath      = 1024
	maxUserAgent = 256
)

// Request is a question about a request, as POST /team/v1/verify takes it. Only Key is needed: the credential as the client has sent it.
type Request struct {
	Key       string  `json:"key"`
	Scope     string  `json:"scope,omitempty"`
	Scopes    *Scopes `json:"scopes,omitempty"`
	Unknown   string  `json:"unknown,omitempty"`
	IP        string  `json:"ip,omitempty"`
	Method    string  `json:"method,omitempty"`
	Path      string  `json:"path,omitempty"`
	Route     string  `json:"route,omitempty"`
	UserAgent string  `json:"user_agent,omitempty"`
	Cost      int     `json:"cost,omitempty"`
	RequestID string  `json:"request_id,omitempty"`
	// Shadow says that the request runs in any case, unless it names the account.
	Shadow *Enforcement `json:"shadow,omitempty"`
	// Report says whether the response will be reported. Nil stands for true.
	Report *bool `json:"report,omitempty"`
}

// Scopes are further scopes that a request needs: all of All, and at least one of Any.
type Scopes struct {
	All []string `json:"all,omitempty"`
	Any []string `json:"any,omitempty"`
}

// Enforcement names accounts, by id or external id, and a share of all accounts, from 0 to 1.
type Enforcement struct {
	Accounts []string `json:"accounts,omitempty"`
	Share    float64  `json:"share,omitempty"`
}

// Answer is a decision, as POST /team/v1/verify responds.
type Answer struct {
	Allowed    bool              `json:"allowed"`
	Status     int               `json:"status"`
	Code       string            `json:"code"`
	Foreign    bool              `json:"foreign"`
	Enforced   bool              `json:"enforced"`
	Degraded   bool              `json:"degraded"`
	RequestID  string            `json:"request_id"`
	Receipt    string            `json:"receipt"`
	Account    *Account          `json:"account"`
	Key        *Key              `json:"key"`
	RateLimits []RateLimit       `json:"rate_limits"`
	Headers    map[string]string `json:"headers"`
	Problem    json.RawMessage   `json:"problem"`
	credential string
}

// Account is the account of a verified key.
type Account struct {
	ID         string                 `json:"id"`
	ExternalID *string                `json:"external_id"`
	Name       string                 `json:"name"`
	Metadata   map[string]interface{} `json:"metadata"`
}

// Key is a verified key.
type Key struct {
	ID         string                 `json:"id"`
	ExternalID *string                `json:"external_id"`
	Name       string                 `json:"name"`
	Scopes     []string               `json:"scopes"`
	Metadata   map[string]interface{} `json:"metadata"`
	ExpiresAt  *string                `json:"expires_at"`
}

// RateLimit is a limit after a decision. ResetsAt is in the form of RFC 3339.
type RateLimit struct {
	Name      string `json:"name"`
	Limit     int    `json:"limit"`
	Used      int    `json:"used"`
	Remaining int    `json:"remaining"`
	ResetsAt  string `json:"resets_at"`
}

var (
	methodForm = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$")
	brokenEnd  = regexp.MustCompile(`%[0-9A-Fa-f]?$`)
)

// described returns a request whose descriptions fit.
func (request Request) described() Request {
	request.Path, _, _ = strings.Cut(request.Path, "?")
	if len(request.Path) > maxPath {
		request.Path = brokenEnd.ReplaceAllString(request.Path[:maxPath], "")
	}
	if !methodForm.MatchString(request.Method) {
		request.Method = ""
	}
	request.IP = addressIn(request.IP)
	if len(request.UserAgent) > maxUserAgent {
		request.UserAgent = strings.ToValidUTF8(request.UserAgent[:maxUserAgent], "")
	}
	return request
}

// sentPath returns the path as the client sent it, without its query.
func sentPath(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if path == "" {
		return r.URL.EscapedPath()
	}
	return path
}

// hasScopes returns whether a key with these scopes may do what a request needs.
func (request Request) hasScopes(own []string) bool {
	needed, anyOf := []string{}, []string{}
	if request.Scope != "" {
		needed = append(needed, request.Scope)
	}
	if request.Scopes != nil {
		needed = append(needed, request.Scopes.All...)
		anyOf = request.Scopes.Any
	}
	for _, each := range needed {
		if len(inBoth(own, []string{each})) == 0 {
			return false
		}
	}
	return len(anyOf) == 0 || len(inBoth(own, anyOf)) > 0
}

// credentialOf returns the one credential in the values of headers, or an empty string if there is none. It returns false if there are two different ones.
func credentialOf(values []string) (string, bool) {
	chosen := ""
	var common []string
	for _, joined := range values {
		if len(joined) > maxHeader {
			// It is longer than any credential, so it is denied without a look at its parts.
			return joined, true
		}
		for _, value := range splitJoined(joined) {
			credentials := credentialsIn(value)
			if len(credentials) == 0 {
				continue
			}
			if !isBasic(value) && len(inBoth(credentials, credentials[:1])) < len(credentials) {
				return "", false
			}
			// Only the Worker can tell which part of Basic is the credential.
			if chosen == "" || (isBasic(value) && !isBasic(chosen)) {
				chosen = value
			}
			if common == nil {
				common = credentials
				continue
			}
			if common = inBoth(common, credentials); len(common) == 0 {
				return "", false
			}
		}
	}
	return chosen, true
}

// splitJoined splits the values of a header that was sent several times. A value with parameters, like `Token token="...", nonce="..."`, stays one.
func splitJoined(value string) []string {
	var parts []string
	start := 0
	for at := range value {
		if value[at] == ',' && !parameterForm.MatchString(value[at+1:]) {
			parts = append(parts, value[start:at])
			start = at + 1
		}
	}
	return append(parts, value[start:])
}

func inBoth(left, right []string) []string {
	both := []string{}
	for _, each := range left {
		for _, other := range right {
			if each == other {
				both = append(both, each)
				break
			}
		}
	}
	return both
}

func isBasic(value string) bool {
	words := strings.Fields(value)
	return len(words) > 0 && strings.EqualFold(words[0], "basic")
}

// The schemes that are followed by the credential itself, and the form in which Rails sends a token.
var (
	schemeForm     = regexp.MustCompile(`(?i)^(?:bearer|token|api-?key)(?:\s+|$)`)
	tokenParameter = regexp.MustCompile(`(?i)(?:^|[\s;,])token=(?:"([^"]*)"|([^\s;,]*))`)
	parameterForm  = regexp.MustCompile(`^\s*[\w-]+=[^,=]`)
	notBase64      = regexp.MustCompile(`[^0-9A-Za-z+/]`)
)

// tokensOf returns the tokens in a credential, without its scheme. Only the form of Rails can have several.
func tokensOf(value string) []string {
	text := strings.TrimSpace(value)
	scheme := schemeForm.FindString(text)
	if scheme == "" {
		return []string{text}
	}
	token := strings.TrimSpace(text[len(scheme):])
	if !strings.HasPrefix(strings.ToLower(token), "token=") {
		return []string{token}
	}
	var tokens []string
	for _, parts := range tokenParameter.FindAllStringSubmatch(token, -1) {
		tokens = append(tokens, parts[1]+parts[2])
	}
	return tokens
}

// filledIn returns the texts that are not empty, each once.
func filledIn(texts []string) []string {
	var filled []string
	for _, text := range texts {
		if text != "" && len(inBoth([]string{text}, filled)) == 0 {
			filled = append(filled, text)
		}
	}
	return filled
}

// credentialsIn returns what may be the credential in the value of a header: the token, or the user and the password of Basic.
func credentialsIn(value string) []string {
	if !isBasic(value) {
		return filledIn(tokensOf(value))
	}
	encoded := strings.Join(strings.Fields(value)[1:], "")
	// Servers skip what is not base64.
	plain := notBase64.ReplaceAllString(strings.NewReplacer("-", "+", "_", "/").Replace(encoded), "")
	decoded, err := base64.RawStdEncoding.DecodeString(plain)
	if err != nil {
		return []string{strings.TrimSpace(value)}
	}
	return filledIn(strings.SplitN(string(decoded), ":", 2))
}

// addressIn returns an address without port, brackets and zone, and an IPv4 address without its IPv6 form. It returns "" for other text.
func addressIn(text string) string {
	text = strings.TrimSpace(text)
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	text, _, _ = strings.Cut(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), "%")
	address := net.ParseIP(text)
	if address == nil {
		return ""
	}
	return address.String()
}
