import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { readAction, payloadText, type Action } from '../../src/workflow/action.ts'
import { formatAction, parseAction } from '../../src/workflow/index.ts'
import { formatRevocation, parseMessage } from '../../src/workflow/wire/action-json.ts'

const FIELDS = {
  actionId: randomUUID(),
  actionType: 'VALIDATE_DATA',
  target: 'NodeDataProcessorCompute',
  payload: { data: [1, 2, 3], note: 'ü' },
  workflowId: 'order-991',
  leaseId: randomUUID(),
  fence: 1_700_000_000_000_001,
  epoch: 7,
  previousEpoch: 4,
  priority: 5,
  issuedAtMs: 1_700_000_000_000,
} satisfies Action

describe('an action', () => {
  it('goes over the wire in the names that others use, and comes back the same', () => {
    const action = readAction(FIELDS)
    const wire = JSON.parse(formatAction(action)) as Record<string, unknown>
    expect(wire).toEqual({
      action_id: FIELDS.actionId,
      action_type: 'VALIDATE_DATA',
      target_node_type: 'NodeDataProcessorCompute',
      payload: { data: [1, 2, 3], note: 'ü' },
      workflow_id: 'order-991',
      lease_id: FIELDS.leaseId,
      fence: FIELDS.fence,
      epoch: 7,
      previous_epoch: 4,
      priority: 5,
      issued_at_ms: FIELDS.issuedAtMs,
    })
    expect(parseAction(formatAction(action))).toEqual(action)
  })

  it('cannot be changed, and neither can its payload once it was read', () => {
    const action = parseAction(formatAction(readAction(FIELDS)))
    expect(Object.isFrozen(action)).toBe(true)
    const { data } = action.payload as { data: number[] }
    expect(() => data.push(4)).toThrow(TypeError)
  })

  it.each<[keyof Action, unknown, string]>([
    ['leaseId', undefined, 'leaseId must be a UUID, got undefined'],
    ['leaseId', 'lease-1', 'leaseId must be a UUID, got "lease-1"'],
    ['actionId', '', 'actionId must be a UUID, got ""'],
    ['epoch', undefined, 'epoch must be an integer 0..9007199254740991, got undefined'],
    ['epoch', -1, 'epoch must be an integer 0..9007199254740991, got -1'],
    ['epoch', 1.5, 'epoch must be an integer 0..9007199254740991, got 1.5'],
    ['epoch', 2 ** 53, 'epoch must be an integer 0..9007199254740991, got 9007199254740992'],
    ['epoch', '7', 'epoch must be an integer 0..9007199254740991, got "7"'],
    ['fence', 0, 'fence must be an integer 1..9007199254740991, got 0'],
    ['previousEpoch', 7, 'previousEpoch must be less than the epoch, 7, got 7'],
    ['priority', 0, 'priority must be an integer 1..10, got 0'],
    ['priority', 11, 'priority must be an integer 1..10, got 11'],
    ['actionType', '', 'actionType must be 1..256 bytes, got ""'],
    ['target', 'a\nb', 'target must not contain control characters, got "a\\nb"'],
    ['workflowId', 7, 'workflowId must be text, got 7'],
  ])('with %s %o cannot be built or read', (field, value, message) => {
    const bad = { ...FIELDS, [field]: value }
    expect(() => readAction(bad)).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT', message }),
    )
    const text = formatAction(bad as unknown as Action)
    expect(() => parseAction(text)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }))
  })

  it('may say null for what it may leave out', () => {
    const needed = { action_id: FIELDS.actionId, action_type: 'A', lease_id: FIELDS.leaseId }
    const short = { ...needed, payload: {}, epoch: 3 }
    const optional = ['workflow_id', 'fence', 'issued_at_ms', 'previous_epoch']
    const names = [...optional, 'target_node_type', 'priority', 'last_epochs', 'grant']
    const nulls = Object.fromEntries(names.map((field) => [field, null]))
    const read = parseAction(JSON.stringify({ ...short, ...nulls }))
    expect(read).toEqual(parseAction(JSON.stringify(short)))
    expect(read.priority).toBe(5)
  })

  it.each([
    ['', 'message must be JSON, got ""'],
    ['{', 'message must be JSON, got "{"'],
    ['[]', 'message must be a JSON object, got an array'],
    ['null', 'message must be a JSON object, got null'],
    ['7', 'message must be a JSON object, got 7'],
  ])('is not found in %j', (text, message) => {
    expect(() => parseAction(text)).toThrow(
      expect.objectContaining({ code: 'DECODE_ERROR', message }),
    )
  })

  it('carries what JSON can say, up to 256 KiB', () => {
    const circular: { self?: unknown } = {}
    circular.self = circular
    expect(() => payloadText(circular)).toThrow(
      /^payload must be JSON, got what is not: .*circular/,
    )
    expect(() => payloadText(undefined)).toThrow('payload must be JSON, got undefined')
    expect(() => payloadText(1n)).toThrow('payload must be JSON')
    expect(payloadText('x'.repeat(262_142))).toHaveLength(262_144)
    expect(() => payloadText('x'.repeat(262_143))).toThrow(
      expect.objectContaining({
        code: 'LIMIT_EXCEEDED',
        message: 'payload must be at most 262144 bytes, got 262145 bytes',
      }),
    )
  })
})

describe('a revocation', () => {
  it('goes over the wire with its reason and time', () => {
    const revocation = {
      workflowId: 'order-991',
      leaseId: randomUUID(),
      fence: 7,
      reason: 'orchestrator failed',
      revokedAtMs: 1_700_000_000_000,
    }
    const text = formatRevocation(revocation)
    expect(JSON.parse(text)).toMatchObject({
      event_type: 'LEASE_REVOKED',
      payload: { reason: 'orchestrator failed', revoked_at: '2023-11-14T22:13:20.000Z' },
    })
    expect(parseMessage(text)).toEqual({ kind: 'revoked', revocation })
    expect(() => parseMessage('{"event_type":"LEASE_REVOKED"}')).toThrow(
      'message must be a JSON object, got undefined',
    )
  })
})
