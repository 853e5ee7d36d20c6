/** What a processor meets besides the rule itself: payloads, options, memory, and what it is told of its own doing. */
import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import {
  ACTIONS_REMEMBERED,
  MemoryMarks,
  WORKFLOWS_REMEMBERED,
} from '../../src/workflow/action-marks.ts'
import { readAction, type Action } from '../../src/workflow/action.ts'
import {
  ActionGuard,
  formatAction,
  LocalBus,
  parseAction,
  RedisMarks,
  SqliteMarks,
} from '../../src/workflow/index.ts'

const LEASE = { leaseId: randomUUID(), fence: 10 }

function action(epoch: number, change: Partial<Action> = {}): Action {
  return readAction({
    ...{ actionId: randomUUID(), actionType: 'A', target: 'compute', payload: { n: epoch } },
    ...{ workflowId: 'w', ...LEASE, epoch, previousEpoch: null, priority: 5, issuedAtMs: 1 },
    ...change,
  })
}

describe('an action that comes in', () => {
  it('may be nested as deep as JSON allows, and is frozen to the bottom', () => {
    const depth = 100_000
    const nested = '['.repeat(depth) + ']'.repeat(depth)
    const text = formatAction(action(0, { payload: 'HERE' })).replace('"HERE"', nested)
    let part = parseAction(text).payload as readonly unknown[]
    let frozen = 0
    for (; Array.isArray(part) && Object.isFrozen(part); frozen += 1) {
      part = part[0] as readonly unknown[]
    }
    expect(frozen).toBe(depth)
  })

  it('is refused with a payload over 256 KiB, as when it is sent', () => {
    const text = (length: number): string => {
      return formatAction(action(0, { payload: 'x'.repeat(length) }))
    }
    expect(parseAction(text(262_142)).epoch).toBe(0)
    expect(() => parseAction(text(262_143))).toThrow('payload must be at most 262144 bytes')
  })
})

describe('a guard', () => {
  it('refuses parts that are none, when it is made', async () => {
    const make = (options: object): (() => unknown) => {
      return () => new ActionGuard(options)
    }
    expect(make({ strict: 'yes' })).toThrow('strict must be true, false or every_epoch, got "yes"')
    expect(make({ tenure: {} })).toThrow('tenure must be a client')
    expect(make({ signal: {} })).toThrow('signal must be an AbortSignal')
    expect(make({ workflowId: '' })).toThrow('workflowId must be 1..1000 bytes, got ""')
    expect(make({ marks: {} })).toThrow('marks must be marks')
    expect(make({ lookUp: 1 })).toThrow('lookUp must be a function, got 1')
    expect(make({ log: 1 })).toThrow('log must be a function, got 1')
    const none = undefined as unknown as () => void
    const listening = new ActionGuard().subscribe(new LocalBus(), 'compute', none)
    await expect(listening).rejects.toThrow('effect must be a function')
  })

  it('refuses marks that are misspelt or have no place', () => {
    const client = { call: async () => null }
    const marks = (options: object): (() => unknown) => {
      return () => new RedisMarks(client, 'compute', options)
    }
    expect(marks({ prefx: 'x' })).toThrow('options must be among prefix, got "prefx"')
    const none = {} as unknown as ConstructorParameters<typeof SqliteMarks>[0]
    expect(() => new SqliteMarks(none, 'compute')).toThrow('must be an open SQLite database')
  })

  it('does not carry out again, for an operator either, what it no longer remembers', async () => {
    const guard = new ActionGuard({ marks: new MemoryMarks() })
    await guard.setLease('w', LEASE.leaseId, LEASE.fence)
    const oldest = action(0)
    await guard.process(oldest, () => 'done')
    for (let n = 1; n <= ACTIONS_REMEMBERED; n += 1) await guard.process(action(n), () => 'done')
    const again = guard.process(oldest, () => 'twice', { resent: true })
    await expect(again).rejects.toMatchObject({ code: 'STALE_EPOCH' })
  })

  it('does not fill the memory with workflows: the one it used least is unknown again', async () => {
    const guard = new ActionGuard({ marks: new MemoryMarks() })
    await guard.setLease('first', LEASE.leaseId, LEASE.fence)
    const again = action(0, { workflowId: 'first' })
    await guard.process(again, () => 'done')
    for (let n = 0; n < WORKFLOWS_REMEMBERED + 10; n += 1) {
      await guard.setLease(`w${n}`, LEASE.leaseId, LEASE.fence)
      if (n === 5) expect(() => guard.validate(again)).toThrow('was carried out already')
      await guard.process(action(0, { workflowId: `w${n}` }), () => 'done')
    }
    expect(() => guard.validate(again)).toThrow('its lease is not known here')
  })
})
