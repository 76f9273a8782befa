package developeroverview

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// What a process remembers for OnUnavailable: Known. These are the credentials that it was allowed to serve within the last ten minutes.

const (
	keptFor      = 10 * time.Minute
	maxKnown     = 10000
	maxAddresses = 16
)

type known struct {
	mutex       sync.Mutex
	credentials map[string]*knownCredential
}

type knownCredential struct {
	text        []byte
	addresses   map[string]time.Time
	usedAt      time.Time
	deniedUntil time.Time
}

// idOf returns the id under which this process knows a credential. The text itself is never kept.
func idOf(key string) string {
	token := ""
	if tokens := filledIn(tokensOf(key)); len(tokens) > 0 {
		token = tokens[0]
	}
	sum := sha256.Sum256([]byte(token))
	return string(sum[:])
}

func isRemoving(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusUnprocessableEntity
}

// note notes an answer of the Worker. text: the answer as it came, because a handler may change its own copy.
func (k *known) note(id, ip string, decision *Answer, text []byte) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	// Without the monotonic clock, which stands still while a machine sleeps.
	now := time.Now().Round(0)
	if isRemoving(decision.Status) {
		delete(k.credentials, id)
	}
	credential := k.credentials[id]
	if decision.Status == http.StatusTooManyRequests && credential != nil {
		seconds, err := strconv.Atoi(decision.Headers["Retry-After"])
		if err != nil {
			seconds = int(keptFor / time.Second)
		}
		credential.deniedUntil = now.Add(time.Duration(seconds) * time.Second)
	}
	if !decision.Allowed || decision.Account == nil || decision.Key == nil {
		return
	}
	if credential == nil {
		credential = &knownCredential{addresses: map[string]time.Time{}}
		if len(k.credentials) >= maxKnown {
			k.removeOldest()
		}
		k.credentials[id] = credential
	}
	credential.text = text
	for _, limit := range decision.RateLimits {
		resetsAt, err := time.Parse(time.RFC3339, limit.ResetsAt)
		if err == nil && limit.Remaining <= 0 && resetsAt.After(credential.deniedUntil) {
			credential.deniedUntil = resetsAt
		}
	}
	credential.serve(ip, now)
}

// touch notes a request that a lease has admitted.
func (k *known) touch(id, ip string) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if credential := k.credentials[id]; credential != nil {
		credential.serve(ip, time.Now().Round(0))
	}
}

// serve notes that an address was served.
func (credential *knownCredential) serve(ip string, now time.Time) {
	credential.usedAt = now
	credential.addresses[ip] = now
	if len(credential.addresses) > maxAddresses {
		oldest := ip
		for address, at := range credential.addresses {
			if at.Before(credential.addresses[oldest]) {
				oldest = address
			}
		}
		delete(credential.addresses, oldest)
	}
}

// removeOldest makes room for a tenth of the credentials, so that it runs seldom.
func (k *known) removeOldest() {
	for age := keptFor; len(k.credentials) > maxKnown*9/10; age /= 2 {
		for id, credential := range k.credentials {
			if time.Since(credential.usedAt) >= age || age == 0 {
				delete(k.credentials, id)
			}
		}
	}
}

// find returns the account and the key of a request that may pass without the Worker, or nil.
func (k *known) find(id string, request Request) *Answer {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	credential := k.credentials[id]
	if credential == nil {
		return nil
	}
	now := time.Now().Round(0)
	at, isHere := credential.addresses[request.IP]
	if age := now.Sub(at); !isHere || age < 0 || age >= keptFor || credential.deniedUntil.After(now) {
		return nil
	}
	found := &Answer{}
	if err := json.Unmarshal(credential.text, found); err != nil {
		return nil
	}
	if found.Key.ExpiresAt != nil {
		expires, err := time.Parse(time.RFC3339, *found.Key.ExpiresAt)
		if err != nil || !expires.After(now) {
			return nil
		}
	}
	if !request.hasScopes(found.Key.Scopes) {
		return nil
	}
	return found
}
