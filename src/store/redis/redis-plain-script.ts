/**
 * The part of the script of attempts that carries out a plain one, as almost all are: one lease of a flat realm without
 * an epoch is granted, renewed or ended, with one event and at most one mark. It does what the general part would do
 * (redis-general-script.ts), in a third of the time, because all that can be otherwise there is known here.
 *
 * A plain attempt is one argument, and then what has no width. That one says:
 *
 *     p  mode  mark  depth, id realm request holder session [2 bytes each], then of a new lease its fence[16], of
 *     another its version[11] and the type[1] of its event
 *
 * mode is `n` for a new lease, `k` for a renewal that keeps its place in the index of deadlines, `u` for an end; mark is
 * `-` for none, `0` for one of the day, `1` for a long one; depth is `*`, `0`, `l`, or `o` when nothing but the lease
 * itself is live there. What has no width: claims if listed; head; body of a new lease; score of a new or ended one;
 * event.
 */

const CHECK = `
    local mode, mark, depth, i, i2, r, r2, q, q2, h, h2, s, s2 = byte(c, 2, 14)
    i, r, q = i * 256 + i2, r * 256 + r2, q * 256 + q2
    local head, realm, id = V[i], V[r] or NO_REALM, A[fields + i]
    local holds = groupHolds and sub(realm, 1, 13) <= groupWall and sub(realm, 30, 45) == NONE16
    if mode == 110 then
      holds = holds and not head
    else
      holds = holds and head and sub(head, 1, 11) == sub(c, 15, 25)
    end
    local isMarked = q > 0 and (marked[q] or today[q] or yesterday[q] or (long and (long[q] or longer[q])))
    local start, fence, isOther = at, nil, false
    at = x + 3
    if mode == 110 then
      fence, at = sub(c, 15, 30), x + 4
    elseif mode == 107 then
      at = x + 2
    end
    if depth == 48 then
      holds = holds and #realm == 50
    elseif depth == 111 then
      holds = holds and #realm == 97 and find(realm, id, 51, true)
    elseif depth == 108 then
      x, at = x + 1, at + 1
      isOther = sub(realm, 51) ~= A[x]
    end
    local isTaken = fence and sub(realm, 14, 29) >= fence
    local isRare = not holds or isMarked or isOther or isTaken
    if isRare and more then
      holds = holds and not (isMarked and more.prior(q)) and not (isOther and not more.isSame(A[x], sub(realm, 51)))
    end
    if isRare and not more then
      wantsMore, n, at = true, n - 1, start
    elseif not holds then
      answer[told + 1], answer[told + 2] = n, { more.view(depth, i, r, q) }
      told = told + 2
    else
      isChanged = true
      local shift, event = 0, A[at]
`

/** A grant, whose fence is moved on where another had it; a renewal; an end. */
const APPLY = `
      if mode == 110 then
        local text = A[x + 1]
        if isTaken then
          shift = tonumber(sub(realm, 14, 29)) + 1 - tonumber(fence)
          text, event = more.moved(text, 23, fence, shift), more.moved(event, 53, fence, shift)
          fence = format('%016d', tonumber(fence) + shift)
        end
        created = created + 1
        V[i] = text .. format('%016d', base + created)
        V[r] = groupWall .. fence .. sub(realm, 30) .. id .. sub(text, 12, 22)
        if joinedCount == 0 then joined, joinedHolder, joinedSession = {}, {}, {} end
        putBodies = putBodies or {}
        putBodies[bodiesPut + 1], putBodies[bodiesPut + 2] = id, A[x + 2]
        bodiesPut = bodiesPut + 2
        dated[datedCount + 1], dated[datedCount + 2] = A[x + 3], id
        datedCount = datedCount + 2
        joinedCount = joinedCount + 1
        joined[joinedCount], joinedHolder[joinedCount], joinedSession[joinedCount] = id, h * 256 + h2,
          s * 256 + s2
      else
        V[i] = A[x + 1] .. sub(head, -16)
        if mode == 107 then
          V[r] = groupWall .. sub(realm, 14)
        else
          local from = find(realm, id, 51, true) or #realm + 1
          V[r] = groupWall .. sub(realm, 14, from - 1) .. sub(realm, from + 47)
          if #realm == 97 then
            idleCount = idleCount + 1
            idle[idleCount] = A[fields + r]
          end
          dated[datedCount + 1], dated[datedCount + 2] = A[x + 2], id
          datedCount = datedCount + 2
          if leftCount == 0 then left, leftHolder, leftSession = {}, {}, {} end
          leftCount = leftCount + 1
          left[leftCount], leftHolder[leftCount], leftSession[leftCount] = id, h * 256 + h2, s * 256 + s2
        end
      end
`

const NOTE = `
      if not touched[i] then
        dirty[dirtyCount + 1], dirtyCount, touched[i] = i, dirtyCount + 1, true
      end
      if not touched[r] then
        dirty[dirtyCount + 1], dirtyCount, touched[r] = r, dirtyCount + 1, true
      end
      events = events + 1
      ledger[events] = event
      if mark ~= 45 then
        local text = id .. 'e' .. sub(c, 26)
        marked[q] = text
        if mark == 48 then
          dayMarks[dayMarksCount + 1], dayMarks[dayMarksCount + 2] = A[requests + q], text
          dayMarksCount = dayMarksCount + 2
        else
          longMarks = longMarks or {}
          longMarks[#longMarks + 1] = A[requests + q]
          longMarks[#longMarks + 1] = text
        end
      end
      if shift > 0 then
        answer[told + 1], answer[told + 2] = n, shift
        told = told + 2
      end
    end
`

export const PLAIN_ATTEMPT: string = `${CHECK}${APPLY}${NOTE}`
