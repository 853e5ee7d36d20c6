import { describe, expect, it } from 'vitest'
import { newClient, newWorld } from './harness.ts'

describe('the configuration', () => {
  it('has its defaults until somebody sets it, for all clients of the store', async () => {
    const world = newWorld()
    const { config } = newClient(world, 'alice').tenure
    const other = newClient(world, 'bob').tenure.config
    expect(await config.get('default_ttl_seconds')).toBe(3_600)
    await config.set('default_ttl_seconds', 60)
    expect(await other.get('default_ttl_seconds')).toBe(60)
    expect((await other.all()).default_ttl_seconds).toBe(60)
    await other.unset('default_ttl_seconds')
    expect(await config.get('default_ttl_seconds')).toBe(3_600)
    expect(await config.overrides()).toEqual([])
  })

  it('is obeyed by the next acquire', async () => {
    const { tenure } = newClient(newWorld(), 'alice')
    await tenure.config.set('default_ttl_seconds', 60)
    const lease = await tenure.acquire('work:W-1')
    expect(lease.info.ttlMs).toBe(60_000)
  })

  it('lets a resource beat its kind, and a kind beat the rest', async () => {
    const { config } = newClient(newWorld(), 'alice').tenure
    await config.set('default_ttl_seconds', 60)
    await config.set('default_ttl_seconds', 70, { for: 'work' })
    await config.set('default_ttl_seconds', '80', { for: 'work:W-1' })
    await config.set('default_ttl_seconds', 90, { for: 'work:/' })
    expect(await config.get('default_ttl_seconds')).toBe(60)
    expect(await config.get('default_ttl_seconds', { for: 'work' })).toBe(70)
    expect(await config.get('default_ttl_seconds', { for: 'work:W-1' })).toBe(80)
    expect(await config.get('default_ttl_seconds', { for: 'work:W-2' })).toBe(70)
    expect(await config.get('default_ttl_seconds', { for: 'file' })).toBe(60)
    expect((await config.all('work:W-1')).default_ttl_seconds).toBe(80)
    expect(await config.overrides()).toHaveLength(4)
    await config.unset('default_ttl_seconds', { for: 'work:W-1' })
    expect(await config.get('default_ttl_seconds', { for: 'work:W-1' })).toBe(70)
  })

  it('reads booleans as booleans', async () => {
    const { config } = newClient(newWorld(), 'alice').tenure
    await config.set('keep_history', false)
    expect(await config.get('keep_history')).toBe(false)
  })

  it('names the field of a value it cannot read, its own or one found in the store', async () => {
    const world = newWorld()
    const { config } = newClient(world, 'alice').tenure
    await expect(config.set('default_ttl_seconds', 0)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      details: { field: 'default_ttl_seconds' },
    })
    await expect(config.get('max_renewals', { for: 'No Kind' })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    })
    const broken = { scope: 'global', resourceId: null } as const
    await world.store.configure({ key: 'max_renewals', value: 'many', ...broken })
    await expect(config.get('max_renewals')).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    expect(await config.get('default_ttl_seconds')).toBe(3_600)
  })
})
