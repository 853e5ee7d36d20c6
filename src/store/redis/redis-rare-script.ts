/**
 * Parts of the script of attempts that few attempts need: what a miss is answered with, what a request has done before,
 * trees, and fences that must be moved on.
 */
import { TREES } from './redis-tree-script.ts'

/** What is at the places of an attempt that has missed, with what the attempts before it have changed. */
const VIEWS = `
local function prior(q)
  if marked[q] then return marked[q] end
  local mark = today[q] or yesterday[q] or (long and (long[q] or longer[q]))
  if not mark then return nil end
  local source = byte(mark, 37)
  if source == 101 and call('HEXISTS', E, sub(mark, 1, 36)) == 0 then return nil end
  if source == 109 and tonumber(sub(mark, 39)) * 1000 < now then return nil end
  return mark
end
local pending, bodies, dirtySeen, bodiesSeen = {}, {}, 0, 0
local function catchUp()
  for n = dirtySeen + 1, dirtyCount do pending[A[fields + dirty[n]]] = dirty[n] end
  for n = bodiesSeen + 1, bodiesPut, 2 do bodies[putBodies[n]] = putBodies[n + 1] end
  dirtySeen, bodiesSeen = dirtyCount, bodiesPut
end
local function show(view, shown)
  for first = 1, #shown, 4000 do
    local last = math.min(first + 3999, #shown)
    local some = call('HMGET', E, unpack(shown, first, last))
    local texts = call('HMGET', P .. 'j', unpack(shown, first, last))
    for n = first, last do
      local id, head = shown[n], some[n - first + 1]
      if pending[id] then head = V[pending[id]] end
      if head then
        view[#view + 1] = id
        view[#view + 1] = head
        view[#view + 1] = bodies[id] or texts[n - first + 1]
      end
    end
  end
  return view
end
local function view(depth, i, r, q, shape, resource, behind)
  local realm, id = V[r] or NO_REALM, A[fields + i]
  local claims, epoch = sub(realm, 51), sub(realm, 30, 45)
  catchUp()
  if resource then
    trees = trees or treesOf()
    claims, epoch = depth ~= 42 and trees.claims(resource, shape) or '', trees.epoch(resource)
  elseif depth == 42 then
    claims = ''
  end
  local mark = q > 0 and prior(q) or nil
  local from = behind and find(claims, behind, 1, true)
  -- Whoever got in line behind a claim that still stands is told of those after it.
  if from then claims = sub(claims, from + 47) end
  local shown, seen = {}, {}
  for from = 1, #claims, 47 do
    local other = sub(claims, from, from + 35)
    if not seen[other] then shown[#shown + 1] = other end
    seen[other] = true
  end
  if not seen[id] then shown[#shown + 1] = id end
  seen[id] = true
  local lease = mark and sub(mark, 1, 36) or ''
  if mark and not seen[lease] then shown[#shown + 1] = lease end
  return show({
    sub(realm, 14, 29), sub(realm, 1, 13), sub(realm, 46, 50), epoch, lease, mark and sub(mark, 38, 38) or '',
    from and '1' or '',
  }, shown)
end
local function views(c, p, x, places)
  local all = {}
  for m = 1, places do
    local shape, depth, _, i1, i2, i3, r1, r2, r3, q1, q2, q3 = byte(c, p, p + 11)
    local i, r = (i1 - 33) * 8100 + (i2 - 33) * 90 + i3 - 33, (r1 - 33) * 8100 + (r2 - 33) * 90 + r3 - 33
    local q, resource, behind = (q1 - 33) * 8100 + (q2 - 33) * 90 + q3 - 33, nil, nil
    if depth == 108 or depth == 116 then x = x + 1 end
    if depth == 116 then behind = A[x] end
    if shape ~= 102 then
      x = x + 1
      resource = A[x]
    end
    all[m] = view(depth, i, r, q, shape, resource, behind)
    p = p + 39
  end
  return all
end
`

/**
 * What few attempts need, made when one does. A function costs the server by what it shares with its surroundings: made
 * for every call, these took longer than all else that a call with a single attempt does.
 */
export const RARE: string = `
${TREES}${VIEWS}
local function moved(text, place, first, shift)
  local fence = tonumber(sub(text, place, place + 15))
  if not fence or fence < tonumber(first) then return text end
  return sub(text, 1, place - 1) .. format('%016d', fence + shift) .. sub(text, place + 16)
end
more = { isSame = isSame, treesOf = treesOf, prior = prior, view = view, views = views, moved = moved }
`
