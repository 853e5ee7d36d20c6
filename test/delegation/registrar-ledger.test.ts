/** A registrar that keeps and seals its own events, through the public package, and `tenure ledger verify` of them. */
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { Worker } from 'node:worker_threads'
import { describe, expect, it } from 'vitest'
import { LeaseError, RegistrarLedger } from '../../src/delegation/index.ts'
import {
  leaseConflictPayload,
  leaseIssuedPayload,
  leaseReleasedPayload,
  leaseRenewedPayload,
  parseVerificationKeys,
  recordOf,
  verifyEvent,
  verifyLedger,
  parseCheckpoint,
  LeaseReducer,
  type EventRecord,
  type LedgerVerdict,
} from '../../src/ledger/index.ts'
import { workshop, type Workshop } from '../cli/tenure-process.ts'

const NOW = 1_700_000_000_000

function issued(leaseId: string, workId: string): EventRecord {
  const facts = { leaseId, workId, actorId: 'agent-001', issuedAt: NOW, expiresAt: NOW + 1_000 }
  return {
    eventType: 'lease.issued',
    actorId: 'registrar',
    atMs: NOW,
    payload: leaseIssuedPayload(facts),
  }
}

function renewed(leaseId: string): EventRecord {
  const payload = leaseRenewedPayload({ leaseId, newExpiresAt: NOW + 2_000 })
  return { eventType: 'lease.renewed', actorId: 'registrar', atMs: NOW + 1, payload }
}

function released(leaseId: string): EventRecord {
  const payload = leaseReleasedPayload({ leaseId, releaseReason: 'COMPLETED' })
  return { eventType: 'lease.released', actorId: 'agent-001', atMs: NOW + 2, payload }
}

function conflict(resolution: string): EventRecord {
  const facts = { workId: 'work-001', conflictingLeaseIds: ['lease-001'], resolution }
  return {
    eventType: 'lease.conflict',
    actorId: 'registrar',
    atMs: NOW,
    payload: leaseConflictPayload(facts),
  }
}

interface Registry extends Workshop {
  readonly ledger: string
  readonly keyFile: string
  open(): RegistrarLedger
  lines(file: string): readonly string[]
  verify(): Promise<{ readonly code: number | null; readonly stdout: string }>
}

async function registry(): Promise<Registry> {
  const shop = workshop()
  const keyFile = path.join(shop.directory, 'registrar.keys.json')
  const ledger = path.join(shop.directory, 'registrar.ledger')
  await shop.json(['keys', 'generate', '--keys', keyFile])
  return {
    ...{ ...shop, ledger, keyFile },
    open: () => RegistrarLedger.open(ledger, { keyFile }),
    lines: (file) => fs.readFileSync(path.join(ledger, file), 'utf8').split('\n').slice(0, -1),
    verify: () => shop.hosted(['ledger', 'verify', '--ledger', ledger, '--keys', keyFile]),
  }
}

function codeOf(act: () => unknown): string {
  try {
    act()
    return 'no error'
  } catch (error) {
    if (error instanceof LeaseError) return error.code
    throw error
  }
}

describe("a registrar's own ledger", () => {
  it('signs, keeps and seals events, and goes on where it was', async () => {
    const shop = await registry()
    const first = shop.open()
    const signed = first.append(issued('lease-001', 'work-001'))
    first.append(renewed('lease-001'))
    expect(first.state.getActiveLeaseForWork('work-001')?.renewalCount).toBe(1)
    expect(first.seal(NOW + 3)).toMatchObject({ sequence: 1, events: 2 })
    first.append(released('lease-001'))
    const digest = first.state.digest()
    first.close()
    expect(codeOf(() => first.append(released('lease-001')))).toBe('CLOSED')
    expect(codeOf(() => first.seal(NOW))).toBe('CLOSED')
    const again = shop.open()
    expect([again.state.digest(), again.state.releasedCount()]).toEqual([digest, 1])
    expect(again.seal(NOW + 4)).toMatchObject({ sequence: 2, events: 3 })
    again.close()

    const keys = parseVerificationKeys(shop.lines('keys.json').join('\n'))
    expect(verifyEvent(signed, keys, { now: NOW })).toMatchObject({ keyId: keys[0]?.keyId })
    const lines = shop.lines('events.ndjson')
    const checkpoints = shop.lines('checkpoints.ndjson').map(parseCheckpoint)
    expect(verifyLedger({ lines, checkpoints }, keys)).toMatchObject<Partial<LedgerVerdict>>({
      ...{ ok: true, events: 3, sealed: 3, checkpoints: 2 },
    })
    const reducer = new LeaseReducer()
    for (const line of lines) reducer.apply(recordOf(line))
    expect(reducer.state.digest()).toBe(digest)
    const proven = await shop.verify()
    expect([proven.code, proven.stdout]).toEqual([
      0,
      `3 events are as they were sealed by ${keys[0]?.keyId}\n`,
    ])
  })

  it('writes nothing that does not follow', async () => {
    const shop = await registry()
    const ledger = shop.open()
    ledger.append(issued('lease-001', 'work-001'))
    expect(codeOf(() => ledger.append(issued('lease-002', 'work-001')))).toBe('RESOURCE_HELD')
    expect(codeOf(() => ledger.append({ ...released('lease-001'), actorId: 'eve' }))).toBe(
      'NOT_HOLDER',
    )
    const other = { eventType: 'work.claimed', actorId: 'r', atMs: 1, payload: null }
    expect(codeOf(() => ledger.append(other))).toBe('DECODE_ERROR')
    ledger.append(released('lease-001'))
    expect(shop.lines('events.ndjson')).toHaveLength(2)
    expect(codeOf(() => shop.open())).toBe('STORE_CONFLICT')
    ledger.close()
    ledger.close()
    shop.open().close()
  })

  it('is open in one thread at a time, also within a process', async () => {
    const shop = await registry()
    const ledger = shop.open()
    ledger.append(issued('lease-001', 'work-001'))
    const library = new URL('../../dist/delegation/index.js', import.meta.url).href
    const openInThread = async (): Promise<unknown> => {
      const text = `import { parentPort } from 'node:worker_threads'
        import { RegistrarLedger } from ${JSON.stringify(library)}
        try {
          RegistrarLedger.open(${JSON.stringify(shop.ledger)}, { keyFile: ${JSON.stringify(shop.keyFile)} }).close()
          parentPort.postMessage('opened')
        } catch (error) {
          parentPort.postMessage(error.code)
        }`
      const thread = new Worker(new URL(`data:text/javascript,${encodeURIComponent(text)}`))
      const [answer] = await once(thread, 'message')
      await once(thread, 'exit')
      return answer
    }
    expect(await openInThread()).toBe('STORE_CONFLICT')
    ledger.append(released('lease-001'))
    ledger.close()
    expect(await openInThread()).toBe('opened')
    shop.open().close()
  })

  it('stays open, and as it was, when it is told nonsense', async () => {
    const shop = await registry()
    const ledger = shop.open()
    ledger.append(issued('lease-001', 'work-001'))
    for (const odd of [undefined, -1, 1.5, '1', 1n]) {
      expect(codeOf(() => ledger.seal(odd as never))).toBe('INVALID_INPUT')
    }
    for (const odd of [undefined, null, 5, { ...released('lease-001'), atMs: 'now' }]) {
      expect(['DECODE_ERROR', 'INVALID_INPUT']).toContain(codeOf(() => ledger.append(odd as never)))
    }
    expect(codeOf(() => shop.open())).toBe('STORE_CONFLICT')
    ledger.append(released('lease-001'))
    expect(ledger.seal(NOW + 3)).toMatchObject({ sequence: 1, events: 2 })
    ledger.close()
    expect((await shop.verify()).code).toBe(0)
  })

  it('is found out when bytes of it were changed that read the same', async () => {
    const shop = await registry()
    const ledger = shop.open()
    ledger.append(conflict('a \ufffd of its own'))
    ledger.seal(NOW)
    ledger.close()
    const file = path.join(shop.ledger, 'events.ndjson')
    const text = fs.readFileSync(file, 'latin1')
    fs.writeFileSync(file, text.replace('\xef\xbf\xbd', '\xff'), 'latin1')
    expect((await shop.verify()).code).toBe(1)
    expect(() => shop.open()).toThrow(/got line 1: does not fit its hash/)
  })

  it('writes no line that is too long to be read again', async () => {
    const shop = await registry()
    const ledger = shop.open()
    expect(() => ledger.append(conflict('x'.repeat(8_388_608)))).toThrow(
      'payload must be at most 8388608 bytes, got 8388',
    )
    ledger.append(conflict('x'.repeat(8_388_000)))
    ledger.close()
    shop.open().close()
  })

  it('tells of a rotation when it is sealed, and not when the time of the seal was none', async () => {
    const shop = await registry()
    const first = shop.open()
    first.append(issued('lease-001', 'work-001'))
    first.seal(NOW)
    first.close()
    await shop.json(['keys', 'rotate', '--keys', shop.keyFile, '--ledger', shop.ledger])
    const ledger = shop.open()
    expect(codeOf(() => ledger.seal(Number.NaN))).toBe('INVALID_INPUT')
    expect(shop.lines('events.ndjson')).toHaveLength(1)
    expect(ledger.seal(NOW + 9)).toMatchObject({ sequence: 2, events: 2 })
    ledger.close()
    expect((await shop.verify()).code).toBe(0)
  })

  it('is found out when a line of it was changed, and is not taken for the ledger of a store', async () => {
    const shop = await registry()
    const ledger = shop.open()
    ledger.append(issued('lease-001', 'work-001'))
    ledger.seal(NOW)
    ledger.close()
    const file = path.join(shop.ledger, 'events.ndjson')
    const text = fs.readFileSync(file, 'utf8')
    await shop.json(['acquire', 'work:a', '--holder', 'ada'])
    const words = ['ledger', 'seal', '--ledger', shop.ledger, '--keys', shop.keyFile]
    const sealed = await shop.hosted(words)
    expect([sealed.code, sealed.stderr]).toEqual([
      2,
      expect.stringContaining('is no event of a lease'),
    ])
    expect(fs.readFileSync(file, 'utf8')).toBe(text)
    fs.writeFileSync(file, text.replace('agent-001', 'agent-002'))
    expect((await shop.verify()).code).toBe(1)
    expect(() => shop.open()).toThrow(/got line 1: does not fit its hash/)
    // What a registrar that died has left of a line is cut off.
    fs.writeFileSync(file, `${text}{"n":2,"posi`)
    const whole = shop.open()
    whole.append(released('lease-001'))
    whole.seal(NOW)
    whole.close()
    expect((await shop.verify()).code).toBe(0)
  })

  it('goes on with a rotated key, which it tells of', async () => {
    const shop = await registry()
    const ledger = shop.open()
    ledger.append(issued('lease-001', 'work-001'))
    ledger.seal(NOW)
    ledger.close()
    const { keyFile, ledger: directory } = shop
    await shop.json(['keys', 'rotate', '--keys', keyFile, '--ledger', directory])
    const next = shop.open()
    next.append(released('lease-001'))
    expect(next.seal(NOW + 9)).toMatchObject({ sequence: 2, events: 3 })
    next.close()
    expect((await shop.verify()).code).toBe(0)
    shop.open().close()
  })

  it('is not begun without a key, or where it is told nonsense', async () => {
    const shop = await registry()
    const keyFile = path.join(shop.directory, 'none.json')
    expect(() => RegistrarLedger.open(shop.ledger, { keyFile })).toThrow(/tenure keys generate/)
    expect(fs.existsSync(shop.ledger)).toBe(false)
    for (const odd of [{ keyFile: '' }, { keyFile: 7 }, {}, undefined, null, 'keys.json']) {
      expect(codeOf(() => RegistrarLedger.open(shop.ledger, odd as never))).toBe('INVALID_INPUT')
    }
  })
})
