import { expect, it } from 'vitest'
import { eventWord, LEASE_EVENT_TYPES } from '../../src/core/event.ts'

it('people speak of an event by its own word, and of an issued lease as acquired', () => {
  expect(eventWord('lease.issued')).toBe('acquired')
  for (const type of LEASE_EVENT_TYPES.filter((each) => each !== 'lease.issued')) {
    expect(`lease.${eventWord(type)}`).toBe(type)
  }
})
