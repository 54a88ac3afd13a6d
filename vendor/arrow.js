// Arrow streams as columns.
export { tableFromIPC } from '@uwdata/flechette';
