/** What processors that share their marks know of each other: which lease, which was revoked, and what is still missing. */
import { randomUUID } from 'node:crypto'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { action, codeOf, NEW, OLD, STAGES, type Stage } from './mark-stages.ts'

let stage: Stage

describe.each(Object.keys(STAGES) as (keyof typeof STAGES)[])('shared marks in %s', (name) => {
  beforeAll(async () => {
    stage = await STAGES[name]()
    return () => stage.close()
  })

  beforeEach(() => stage.clear())

  it('let no processor carry out what another knows to be revoked, nor take the revocation back', async () => {
    const [hears, deaf, third] = [1, 2, 3].map(() => stage.newProcessor()) as [
      ReturnType<Stage['newProcessor']>,
      ReturnType<Stage['newProcessor']>,
      ReturnType<Stage['newProcessor']>,
    ]
    for (const processor of [hears, deaf, third]) await processor.setLease(OLD.leaseId, OLD.fence)
    await deaf.process(action(0), 'a')
    await hears.revoke(OLD.leaseId, OLD.fence)
    expect(await codeOf(deaf.process(action(1), 'x'))).toBe('LEASE_VIOLATION')
    expect(await codeOf(third.process(action(2), 'x'))).toBe('LEASE_VIOLATION')
    expect(await stage.values()).toEqual(['a'])
  })

  it('keep a revocation through a restart, whatever the processor is told again', async () => {
    const before = stage.newProcessor()
    await before.setLease(OLD.leaseId, OLD.fence)
    await before.revoke(OLD.leaseId, OLD.fence)
    const after = stage.newProcessor(() => OLD)
    await after.setLease(OLD.leaseId, OLD.fence)
    expect(await codeOf(after.process(action(0), 'x'))).toBe('LEASE_VIOLATION')
    await after.setLease(NEW.leaseId, NEW.fence)
    expect(await after.process(action(0, NEW), 'a')).toBe('a')
    expect(await stage.values()).toEqual(['a'])
  })

  it('refuse a revoked lease that a processor learnt of before, from whomever it asked', async () => {
    const [asks, hears] = [stage.newProcessor(() => OLD), stage.newProcessor()]
    await asks.process(action(0), 'a')
    await hears.revoke(OLD.leaseId, OLD.fence)
    expect(await codeOf(asks.process(action(1), 'x'))).toBe('LEASE_VIOLATION')
    expect(await stage.values()).toEqual(['a'])
  })

  it('know a lease from the moment that one of them was told, before its first action', async () => {
    await stage.newProcessor().setLease(OLD.leaseId, OLD.fence)
    expect(await stage.newProcessor().process(action(0), 'a')).toBe('a')
  })

  it('refuse a lease with a lower fence, or with the same and another id, whoever is told', async () => {
    await stage.newProcessor().setLease(NEW.leaseId, NEW.fence)
    const other = stage.newProcessor()
    expect(await codeOf(other.setLease(OLD.leaseId, OLD.fence))).toBe('LEASE_VIOLATION')
    expect(await codeOf(other.setLease(randomUUID(), NEW.fence))).toBe('LEASE_VIOLATION')
    await other.revoke(randomUUID(), NEW.fence)
    expect(await other.process(action(0, NEW), 'a')).toBe('a')
  })

  it('accept an action that was passed over when it is sent again, once', async () => {
    const processor = stage.newProcessor()
    await processor.setLease(OLD.leaseId, OLD.fence)
    const [buried, next] = [action(1), action(2, { previousEpoch: 1 })]
    await processor.process(action(0), '0')
    await processor.setLease(OLD.leaseId, OLD.fence, 1)
    await processor.process(next, '2')
    expect(await codeOf(processor.process(buried, 'x'))).toBe('STALE_EPOCH')
    const other = stage.newProcessor()
    expect(await other.processAgain(buried, '1')).toBe('1')
    expect(await codeOf(processor.processAgain(buried, 'x'))).toBe('DUPLICATE_ACTION')
    expect(await codeOf(processor.processAgain(next, 'x'))).toBe('DUPLICATE_ACTION')
    // The mark has not gone back.
    expect(await codeOf(processor.process(action(2), 'x'))).toBe('STALE_EPOCH')
    expect(await stage.values()).toEqual(['0', '2', '1'])
  })

  it('refuse what is sent again under a lease that is over', async () => {
    const processor = stage.newProcessor()
    await processor.setLease(OLD.leaseId, OLD.fence)
    const buried = action(0)
    await processor.setLease(NEW.leaseId, NEW.fence)
    expect(await codeOf(processor.processAgain(buried, 'x'))).toBe('LEASE_VIOLATION')
    await processor.revoke(NEW.leaseId, NEW.fence)
    expect(await codeOf(processor.processAgain(action(0, NEW), 'x'))).toBe('LEASE_VIOLATION')
  })

  it('refuse to wait inside an effect for the effect to end', async () => {
    const processor = stage.newProcessor()
    await processor.setLease(OLD.leaseId, OLD.fence)
    const codes: unknown[] = []
    await processor.processWith(action(0), async () => {
      codes.push(await codeOf(processor.setLease(NEW.leaseId, NEW.fence)))
      codes.push(await codeOf(processor.process(action(1), 'x')))
    })
    expect(codes).toEqual(['DEADLOCK', 'DEADLOCK'])
  }, 10_000)
})
