import os from 'node:os'
import { expect, it, onTestFinished, vi } from 'vitest'
import { endsWithin } from '../../src/runtime/ends-within.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { hearFaults } from './hear-faults.ts'

it('a boot clock that cannot be read is none, and that is reported once, not at every look', () => {
  const faults = hearFaults()
  vi.spyOn(os, 'uptime').mockImplementation(() => {
    throw new Error('EPERM')
  })
  onTestFinished(() => void vi.restoreAllMocks())
  expect(systemRuntime.bootMs()).toBeNull()
  expect(systemRuntime.bootMs()).toBeNull()
  expect(faults()).toEqual([['runtime/boot-clock', 'EPERM']])
})

it('work that fails in time is thrown, and what fails after its time is reported', async () => {
  const [faults, runtime] = [hearFaults(), new FakeRuntime()]
  const failed = Promise.reject(new Error('in time'))
  await expect(endsWithin(runtime, 1_000, failed)).rejects.toThrow('in time')
  let fail = (_error: Error): void => undefined
  const work = new Promise<never>((_resolve, reject) => {
    fail = reject
  })
  const ended = endsWithin(runtime, 1_000, work)
  await runtime.advance(1_000)
  expect(await ended).toBe(false)
  fail(new Error('too late'))
  await expect.poll(faults).toEqual([['runtime/late-end', 'too late']])
})
