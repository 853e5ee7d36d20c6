/**
 * What every script begins with. The first line lets the server refuse a script as a whole when it is out of memory or
 * may not write; without it the script would begin, and fail at its first write.
 */
export const PREAMBLE: string = `#!lua
local prefix = KEYS[1] .. ':'
local match, find, sub, format = string.match, string.find, string.sub, string.format
local call = redis.call
local function int(number) return format('%d', number) end
local function inChunks(command, key, list)
  for first = 1, #list, 4000 do
    call(command, key, unpack(list, first, math.min(first + 3999, #list)))
  end
end
local function created(id) return call('ZSCORE', prefix .. 'i', id) or '' end
local function clock(given)
  if given ~= '' then return tonumber(given) end
  local time = call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local function state(text)
  local last, high, revision = match(text or '0 0 0', '^(%d+) (%d+) (%d+)$')
  return tonumber(last), tonumber(high), revision
end
`
