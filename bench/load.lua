-- Arguments: the mean wait of a connection between its requests in milliseconds, 0 for none, then the keys, which are sent in turn.

local requests = {}
local sent = 0

-- What Cloudflare tells a Worker of each connection, `request.cf`.
local connection = [[{"asn":64500,"asOrganization":"Example","city":"Bern","clientAcceptEncoding":"gzip","clientTcpRtt":9,"colo":"ZRH","continent":"EU",]]
  .. [["country":"CH","edgeRequestKeepAliveStatus":1,"httpProtocol":"HTTP/2","latitude":"46.94809","longitude":"7.44744","postalCode":"3000",]]
  .. [["region":"Bern","regionCode":"BE","requestPriority":"","timezone":"Europe/Zurich","tlsCipher":"AEAD-AES128-GCM-SHA256","tlsVersion":"TLSv1.3"}]]

function init(args)
  local mean = tonumber(args[1])
  if mean > 0 then
    -- A random while, so that requests arrive spread and not in bursts.
    delay = function()
      return math.random(math.floor(mean * 0.5), math.ceil(mean * 1.5))
    end
  end
  for index = 2, #args do
    local headers = { ["CF-Connecting-IP"] = "198.51.100.7", ["CF-Blob"] = connection, ["Authorization"] = "Bearer " .. args[index] }
    requests[#requests + 1] = wrk.format("GET", nil, headers)
  end
end

function request()
  sent = sent + 1
  return requests[sent % #requests + 1]
end

function done(summary, latency)
  local text = '{"requests":%d,"seconds":%f,"refused":%d,"failed":%d,"p50":%f,"p99":%f}'
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.timeout
  print(text:format(summary.requests, summary.duration / 1e6, errors.status, failed, latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
