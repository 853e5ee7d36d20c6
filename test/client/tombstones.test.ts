import { describe, expect, it } from 'vitest'
import { Tombstones } from '../../src/client/stale-answers.ts'

const REALM = 'work:a'

describe('the tombstones of a client', () => {
  it('is known while somebody asks for the same realm, and not longer', () => {
    const tombstones = new Tombstones()
    tombstones.begin([REALM])
    tombstones.begin([REALM])
    tombstones.note('one', REALM)
    tombstones.end([REALM])
    expect(tombstones.has('one', REALM)).toBe(true)
    tombstones.end([REALM])
    expect(tombstones.has('one', REALM)).toBe(false)
  })

  it('is known to whoever asks for that lease by its id', () => {
    const tombstones = new Tombstones()
    tombstones.begin(['one'])
    tombstones.note('one', REALM)
    tombstones.note('two', REALM)
    expect(tombstones.has('one', REALM)).toBe(true)
    expect(tombstones.has('two', REALM)).toBe(false)
  })

  it('is not kept where nobody asks', () => {
    const tombstones = new Tombstones()
    tombstones.begin(['work:b'])
    tombstones.note('one', REALM)
    tombstones.begin([REALM])
    expect(tombstones.has('one', REALM)).toBe(false)
  })

  it('is bounded where somebody always asks: the latest are known', () => {
    const tombstones = new Tombstones()
    tombstones.begin([REALM])
    for (let index = 0; index < 5_000; index += 1) tombstones.note(`lease-${index}`, REALM)
    expect(tombstones.has('lease-4999', REALM)).toBe(true)
    expect(tombstones.has('lease-4600', REALM)).toBe(true)
    expect(tombstones.has('lease-0', REALM)).toBe(false)
  })
})
